"""Finding `vllm serve` in Kubernetes manifests and compose files."""

from __future__ import annotations

from pathlib import Path

import pytest

from palanca.errors import UsageError
from palanca.facts import parse_serve_args
from palanca.manifest import find, serve_arguments

MANIFESTS = Path(__file__).parent / "data" / "manifests"


@pytest.mark.parametrize(
    ("name", "place", "flags"),
    [
        ("deployment.yaml", "llama/vllm", {"--max-num-seqs": "64", "--gpu-memory-utilization": "0.92"}),
        (
            "compose.yaml",
            "services/chat",
            {
                "--model": "Qwen/Qwen2.5-7B-Instruct",
                "--max-num-seqs": "32",
                "--speculative-config": '{"method":"ngram","num_speculative_tokens":5}',
            },
        ),
        ("shell.yaml", "pod/server", {"--max-num-batched-tokens": "8192", "--enable-chunked-prefill": "false"}),
    ],
)
def test_finds_the_server(name: str, place: str, flags: dict[str, str]) -> None:
    """The one container that runs vLLM is found, whatever starts it."""
    (found,) = find(MANIFESTS / name)
    assert place == found.place
    assert flags == parse_serve_args(found.arguments)
    assert found.arguments == serve_arguments(MANIFESTS / name)


def written(folder: Path, text: str) -> Path:
    path = folder / "manifest.yaml"
    path.write_text(text, encoding="utf-8")
    return path


TWO = """
services:
  a: {image: vllm/vllm-openai, command: --max-num-seqs 8}
  b: {image: vllm/vllm-openai, command: --max-num-seqs 16}
"""


def test_several_servers_need_a_name(tmp_path: Path) -> None:
    """Two servers that differ are told, and a name picks one."""
    path = written(tmp_path, TWO)
    with pytest.raises(UsageError, match=r"several vLLM servers \(services/a, services/b\); add #NAME"):
        serve_arguments(path)
    assert "--max-num-seqs 16" == serve_arguments(path, "b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("services: {db: {image: postgres, command: -c x}}", "no `vllm serve` in it"),
        ("just text", "no `vllm serve` in it"),
        ("a: [1, 2", ":1:9: not YAML"),
        ("", "no `vllm serve` in it"),
        ("services:\n  x: {image: vllm/vllm-openai}", "no `vllm serve` in it"),
    ],
)
def test_refuses(tmp_path: Path, text: str, message: str) -> None:
    """What holds no server is refused with the reason."""
    with pytest.raises(UsageError) as caught:
        serve_arguments(written(tmp_path, text))
    assert message in str(caught.value)


@pytest.mark.parametrize("value", ["2024-99-99", "!!int ''", "!!int x", "!!bool x", "!!timestamp x", "!!float x"])
def test_values_that_yaml_cannot_read(tmp_path: Path, value: str) -> None:
    """They are told with their place, like anything else that is no YAML."""
    with pytest.raises(UsageError, match=r"manifest\.yaml:2:4: not YAML: .* cannot be read: .*; quote it"):
        find(written(tmp_path, f"a: 1\nb: {value}\n"))


def test_a_missing_file(tmp_path: Path) -> None:
    """A file that is not there is told."""
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        serve_arguments(tmp_path / "none.yaml")


def test_a_name_that_is_not_there(tmp_path: Path) -> None:
    """A name that no server has is told."""
    with pytest.raises(UsageError, match="no `vllm serve` called 'c'"):
        serve_arguments(written(tmp_path, TWO), "c")


def test_unbalanced_quotes_are_split_at_spaces(tmp_path: Path) -> None:
    """A command that no shell could read still gives its plain flags."""
    path = written(tmp_path, 'services: {x: {image: vllm/vllm-openai, command: "--max-num-seqs 8 \'x"}}')
    assert "8" == parse_serve_args(serve_arguments(path).replace("'", ""))["--max-num-seqs"]


def _bomb() -> str:
    """Twelve levels of ten aliases each."""
    levels = [f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 10)}]" for level in range(1, 12)]
    return "\n".join(["l0: &l0 [x]", *levels])


@pytest.mark.parametrize("text", ["a: &a [*a]\n", "a: &a {b: *a}\n", _bomb()])
def test_endless_aliases(tmp_path: Path, text: str) -> None:
    """What holds itself, or ten times ten times ten, is refused and does not hang."""
    path = tmp_path / "m.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="aliases"):
        find(path)


def test_aliases_of_compose(tmp_path: Path) -> None:
    """A shared part is read wherever it is used."""
    path = tmp_path / "compose.yaml"
    path.write_text(
        "x-vllm: &vllm {command: [vllm, serve, m, --max-num-seqs, '8']}\nservices: {one: {<<: *vllm}, two: *vllm}\n",
        encoding="utf-8",
    )
    assert {"services/one", "services/two"} <= {one.place for one in find(path)}
