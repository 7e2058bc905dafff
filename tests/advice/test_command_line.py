"""A recommended change within the command line that was given."""

from __future__ import annotations

import re

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


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("VLLM_X='A B' vllm serve m", "'VLLM_X=' in it is for a shell"),
        ("vllm serve $MODEL", "'$' in it"),
        ("cd /x && vllm serve m", "'&' in it"),
        ("vllm serve m 2>&1 | tee log", "'>' in it"),
        ("vllm serve m # mine", "'#' in it"),
        ("sh -c 'vllm serve m --max-num-seqs 64'", "more than vllm serve"),
        ("docker run --rm image --model m", "more than vllm serve"),
        ("docker --model m", "more than vllm serve"),
        ("serve m --port 1", "more than vllm serve"),
        ("vllm serve m -- x", "more than vllm serve"),
        ("vllm serve m n", "more than vllm serve"),
        ("python3 -m http.server", "more than vllm serve"),
    ],
)
def test_lines_that_are_more_than_a_command(line: str, said: str) -> None:
    """What is copied would not do what is said."""
    with pytest.raises(UsageError, match=re.escape(said)):
        changed(line, "--max-num-seqs 96", ALONE)


def test_a_flag_that_is_not_there() -> None:
    """Cannot be removed from here."""
    with pytest.raises(UsageError, match="--swap-space is not among them"):
        changed("--port 1", "remove --swap-space", ALONE)


def test_secrets_are_hidden() -> None:
    """A page is read by many."""
    line = "vllm serve m --api-key sk-1 --hf-token=abc --max-num-seqs 4 --ssl-keyfile k.pem"
    expected = "vllm serve m --api-key HIDDEN --hf-token=HIDDEN --max-num-seqs 8 --ssl-keyfile k.pem"
    assert expected == changed(line, "--max-num-seqs 8", ALONE)


def test_lines_that_no_shell_reads() -> None:
    """Are refused."""
    with pytest.raises(UsageError, match="cannot be read"):
        changed("--a 'b", "--max-num-seqs 8")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--port 1", ("vllm serve llama --port 1", True)),
        ("org/vllm-tuned --port 1", ("vllm serve org/vllm-tuned --port 1", False)),
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
