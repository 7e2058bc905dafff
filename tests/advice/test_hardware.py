"""``rules/hardware.yaml`` and how a GPU is found in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from palanca.advice.hardware import Hardware, find_gpu, load_hardware
from palanca.errors import RuleFileError, UsageError
from palanca.resources import shipped


@pytest.fixture(scope="module")
def hardware() -> Hardware:
    return load_hardware([shipped("rules")])


@pytest.mark.parametrize(
    ("gpu_id", "bandwidth", "memory"),
    [
        ("rtx-4090", 1008, 24),
        ("l40", 864, 48),
        ("l40s", 864, 48),
        ("l4", 300, 24),
        ("a100-40", 1555, 40),
        ("a100-80-sxm", 2039, 80),
        ("h100-sxm", 3350, 80),
        ("h100-pcie", 2000, 80),
        ("h200", 4800, 141),
    ],
)
def test_bandwidths(gpu_id: str, bandwidth: float, memory: float, hardware: Hardware) -> None:
    """Bandwidth and memory are those of the vendors (an RTX 4090 has 1,008 GB/s, not the article's TB/s)."""
    gpu = hardware.gpus[gpu_id]
    assert (bandwidth, memory) == (gpu.bandwidth_gb_s, gpu.memory_gb)


def test_cuda_reports_less_than_is_printed(hardware: Hardware) -> None:
    """Total memory is below the printed GiB and above 90 % of it."""
    assert all(0.9 * gpu.memory_gb < gpu.total_gib < gpu.memory_gb for gpu in hardware.gpus.values())


@pytest.mark.parametrize(
    ("gpu_id", "text"),
    [
        ("rtx-4090", "rtx-4090"),
        ("rtx-4090", "4090"),
        ("rtx-4090", "NVIDIA GeForce RTX 4090"),
        ("rtx-4090", " rtx_4090 "),
        ("h100-sxm", "H100"),
        ("a100-80-sxm", "NVIDIA A100-SXM4-80GB"),
        ("l40s", "NVIDIA L40S"),
        ("t4", "Tesla T4"),
    ],
)
def test_names_of_a_gpu(gpu_id: str, text: str, hardware: Hardware) -> None:
    """A GPU is found by its id, its name and what people call it."""
    assert gpu_id == find_gpu(hardware, text).id


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        ("did you mean rtx-4090", "rtx-4080"),
        ("did you mean h100-sxm", "H100 NVL"),
        ("l40", "L40X"),
        ("known are a100-40, a100-80-sxm", "mi300x"),
        ("known are a100-40", ""),
        ("known are a100-40", "???"),
        ("there is no GPU 'xxxx", "x" * 10_000),
    ],
)
def test_unknown_gpu(hint: str, text: str, hardware: Hardware) -> None:
    """An unknown GPU lists near ones, or all."""
    with pytest.raises(UsageError) as caught:
        find_gpu(hardware, text)
    assert hint in str(caught.value)
    assert 1000 > len(str(caught.value))


def test_overlay(tmp_path: Path, hardware: Hardware) -> None:
    """A folder of one's own adds GPUs."""
    (tmp_path / "hardware.yaml").write_text(
        "gpus:\n  mi300x: {name: AMD MI300X, memory_gb: 192, total_gib: 191.98, bandwidth_gb_s: 5300, tflops: 1307, "
        'compute_capability: "9.4", source: test}\n',
        encoding="utf-8",
    )
    both = load_hardware([shipped("rules"), tmp_path])
    assert {*hardware.gpus, "mi300x"} == set(both.gpus)
    assert set(hardware.references) == set(both.references)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("unknown key 'memory'", "gpus:\n  a: {name: A, memory: 1}\n"),
        ("key 'tflops' is missing", "gpus:\n  a: {name: A, memory_gb: 1, total_gib: 1, bandwidth_gb_s: 1}\n"),
        ("greater than 0", "gpus:\n  a: {name: A, memory_gb: -1}\n"),
        ("duplicate key 'a'", "gpus:\n  a: {name: A}\n  a: {name: A}\n"),
    ],
)
def test_faulty_file(message: str, text: str, tmp_path: Path) -> None:
    """Faults have file, line and column."""
    (tmp_path / "hardware.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(RuleFileError) as caught:
        load_hardware([tmp_path])
    assert message in str(caught.value)
    assert f"{tmp_path}/hardware.yaml:" in str(caught.value)
