"""Command lines of vLLM."""

from __future__ import annotations

import pytest

from palanca.errors import UsageError
from palanca.facts import (
    parse_serve_args,
)

JSON = '{"method": "ngram", "num_speculative_tokens": 5}'


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("", {}),
        ("vllm serve meta-llama/Llama-3.1-8B", {}),
        ("--max-num-seqs 64", {"--max-num-seqs": "64"}),
        ("--max-num-seqs=64", {"--max-num-seqs": "64"}),
        ("vllm serve m --max-num-seqs 64 --block-size=32", {"--max-num-seqs": "64", "--block-size": "32"}),
        ("--max_num_seqs 64", {"--max-num-seqs": "64"}),
        ("--served-model-name my_model", {"--served-model-name": "my_model"}),
        ("--enforce-eager", {"--enforce-eager": "true"}),
        ("--enforce-eager --max-num-seqs 64", {"--enforce-eager": "true", "--max-num-seqs": "64"}),
        ("--no-enable-chunked-prefill", {"--enable-chunked-prefill": "false"}),
        ("--no_enable_chunked_prefill", {"--enable-chunked-prefill": "false"}),
        ("--no-enable-prefix-caching --max-num-seqs 8", {"--enable-prefix-caching": "false", "--max-num-seqs": "8"}),
        ("-tp 2", {"--tensor-parallel-size": "2"}),
        ("-tp=2 -dp 4 -pp 1", {"--tensor-parallel-size": "2", "--data-parallel-size": "4",
                               "--pipeline-parallel-size": "1"}),
        ("--max-num-seqs 64 --max-num-seqs 32", {"--max-num-seqs": "32"}),
        ("--device-memory-utilization 0.8", {"--gpu-memory-utilization": "0.8"}),
        ("--spec-tokens 3", {"--num-speculative-tokens": "3"}),
        ("--max-model-len -1", {"--max-model-len": "-1"}),
        (f"--speculative-config '{JSON}'", {"--speculative-config": JSON}),
        (f"--speculative-config='{JSON}'", {"--speculative-config": JSON}),
        (f"-sc '{JSON}'", {"--speculative-config": JSON}),
        ('--served-model-name "a model"', {"--served-model-name": "a model"}),
        ("--max-num-seqs= --block-size 16", {"--max-num-seqs": "", "--block-size": "16"}),
        ("vllm serve m --enforce-eager \\\n  --max-num-seqs 64 \\\r\n--block-size 16",
         {"--enforce-eager": "true", "--max-num-seqs": "64", "--block-size": "16"}),
    ],
)  # fmt: skip
def test_command_lines(text: str, flags: dict[str, str]) -> None:
    """Flags in every spelling that a shell and argparse take, also over several lines."""
    assert flags == parse_serve_args(text)


@pytest.mark.parametrize("text", ["--max-num-seqs '64", '--speculative-config "{', "--served-model-name x\\"])
def test_unbalanced_quotes(text: str) -> None:
    """What a shell would not take is refused."""
    with pytest.raises(UsageError, match="--serve-args cannot be read as a command line: No "):
        parse_serve_args(text)
