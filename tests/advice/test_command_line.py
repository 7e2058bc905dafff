"""A recommended change within the command line that was given."""

from __future__ import annotations

import pytest
from tests.engines import shipped

from palanca.advice.command_line import changed, switches, whole
from palanca.errors import UsageError
from palanca.facts import parse_serve_args

ALONE = switches(shipped())


@pytest.mark.parametrize(
    ("line", "argument", "expected"),
    [
        ("--max-num-seqs 256 --enforce-eager", "--max-num-seqs 96", "--max-num-seqs 96 --enforce-eager"),
        ("--max-num-seqs=256", "--max-num-seqs 96", "--max-num-seqs 96"),
        ("--max_num_seqs 256", "--max-num-seqs 96", "--max-num-seqs 96"),
        ("--port 1", "--max-num-seqs 96", "--port 1 --max-num-seqs 96"),
        ("", "--max-num-seqs 96", "--max-num-seqs 96"),
        ("--max-num-seqs 1 --port 2 --max-num-seqs 3", "--max-num-seqs 96", "--max-num-seqs 96 --port 2"),
        ("--device-memory-utilization 0.8", "--gpu-memory-utilization 0.9", "--gpu-memory-utilization 0.9"),
        ("vllm serve m -tp 2", "--tensor-parallel-size 4", "vllm serve m --tensor-parallel-size 4"),
        ("--swap-space 4 --port 1", "remove --swap-space", "--port 1"),
        ("--port 1", "remove --swap-space", "--port 1"),
        ("--speculative-model d --num-speculative-tokens 5 --port 1",
         "remove --speculative-model and --num-speculative-tokens", "--port 1"),
        ("--no-enable-prefix-caching", "--enable-prefix-caching", "--enable-prefix-caching"),
        ("--enable-prefix-caching", "--no-enable-prefix-caching", "--no-enable-prefix-caching"),
        ("--enable-prefix-caching llama", "--no-enable-prefix-caching", "--no-enable-prefix-caching llama"),
        ("--chat-template 'a b' --max-num-seqs 4", "--max-num-seqs 8", "--chat-template 'a b' --max-num-seqs 8"),
        ("--a \\\n  --max-num-seqs 4", "--max-num-seqs 8", "--a --max-num-seqs 8"),
    ],
)  # fmt: skip
def test_one_flag_is_changed(line: str, argument: str, expected: str) -> None:
    """And all others stay as they are, in their order."""
    made = changed(line, argument, ALONE)
    assert expected == made
    before, after = parse_serve_args(line), parse_serve_args(expected)
    about = set(parse_serve_args(argument.replace("remove ", "").replace(" and ", " ")))
    assert {name: value for name, value in before.items() if name not in about} == {
        name: value for name, value in after.items() if name not in about
    }


def test_what_is_known_in_part_only() -> None:
    """Is not guessed."""
    assert changed("--port 1", "--speculative-config '{\"num_speculative_tokens\": 3, ...}'") is None


def test_lines_that_no_shell_reads() -> None:
    """Are refused."""
    with pytest.raises(UsageError, match="cannot be read"):
        changed("--a 'b", "--max-num-seqs 8")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--port 1", ("vllm serve llama --port 1", True)),
        ("my/model --port 1", ("vllm serve my/model --port 1", False)),
        ("vllm serve my/model --port 1", ("vllm serve my/model --port 1", False)),
        ("python -m vllm.entrypoints.openai.api_server --port 1",
         ("python -m vllm.entrypoints.openai.api_server --port 1", False)),
        ("--model my/model", ("vllm serve --model my/model", False)),
        ("", ("vllm serve llama", True)),
    ],
)  # fmt: skip
def test_it_can_be_typed(line: str, expected: tuple[str, bool]) -> None:
    """With the command and a model."""
    assert expected == whole(line, "llama")


def test_without_a_name() -> None:
    """There is a place for it."""
    assert ("vllm serve MODEL --port 1", True) == whole("--port 1", "")
