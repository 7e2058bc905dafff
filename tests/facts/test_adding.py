"""Which of several facts wins."""

from __future__ import annotations

import pytest
from tests.engines import Value, readings, shipped
from tests.facts.known import INFO

from palanca.facts import (
    add_facts,
    complete,
    defaults,
)
from palanca.model import Fact

PINNED: dict[str, Value] = {
    "running_now": [4.0] * 20, "waiting_now": [9.0] * 20, "running_max": 4.0, "kv_cache_usage_max": 0.1,
    "waiting_capacity": 9.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "info", "name", "value", "provenance"),
    [
        ({}, {}, "max_num_seqs", 4.0, "inferred"),
        ({"--max-num-seqs": "8"}, {}, "max_num_seqs", 8.0, "given"),
        ({}, INFO, "gpu_memory_utilization", 0.9, "reported"),
        ({"--gpu-memory-utilization": "0.8"}, INFO, "gpu_memory_utilization", 0.8, "given"),
        ({}, INFO, "kv_tokens", 64000.0, "reported"),
        ({}, INFO, "fp8_kv", True, "reported"),
        ({"--kv-cache-dtype": "auto"}, INFO, "fp8_kv", False, "given"),
        ({}, INFO, "kv_blocks_set_by_hand", False, "reported"),
        ({"--num-gpu-blocks-override": "99"}, {}, "kv_blocks_set_by_hand", True, "given"),
        ({}, {}, "slo.ttft_p99", 1.0, "default"),
        ({}, {}, "speculation", False, "inferred"),
        ({"--max-num-seqs": "8"}, {}, "speculation", False, "given"),
    ],
)
def test_precedence(flags: dict[str, str], info: dict[str, str], name: str, value: object, provenance: str) -> None:
    """Given wins over reported, reported over inferred, inferred over the default."""
    read = readings(PINNED, {}, info=[info, {}])
    fact = add_facts(read, shipped(), flags=flags).facts[0][name]
    assert (value, provenance) == (fact.value, fact.provenance)


def test_objectives_are_given() -> None:
    """An objective of the operator replaces the default one."""
    (facts,) = add_facts(readings({}), shipped(), objectives={"slo.ttft_p99": 0.3}).facts
    assert Fact(0.3, "given", "--slo") == facts["slo.ttft_p99"]
    assert "default" == facts["slo.itl_p99"].provenance


def test_what_is_not_known_is_no_fact() -> None:
    """Without labels, load and command line there are only the defaults."""
    assert defaults(shipped()) == complete(shipped(), defaults(shipped()))
