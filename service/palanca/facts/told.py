"""Facts that somebody tells: the operator by flags, the server by labels, a release by its defaults."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, TypeAlias

from palanca.errors import UsageError
from palanca.facts.serve_args import NUMBER
from palanca.model import Fact
from palanca.releases import Release

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from palanca.model import Catalogue, FactSpec, ReleaseDefault, VllmVersion

Facts: TypeAlias = dict[str, Fact]

_LEFT_TO_VLLM = frozenset({"auto", "none", "null", "-1"})
_AT_LEAST_ONE = frozenset({"max_num_seqs", "max_num_batched_tokens", "max_model_len", "block_size"})
_SHARES = frozenset({"gpu_memory_utilization", "watermark"})
_SUFFIX = {"k": 1000, "m": 1000**2, "g": 1000**3, "K": 1024, "M": 1024**2, "G": 1024**3}
_SPEC_FLAG = "--speculative-config"
_SPEC_FLAGS = ("--speculative-", "--spec-", "--num-speculative-tokens")


def given(catalogue: Catalogue, flags: Mapping[str, str], source: str = "--serve-args") -> Facts:
    """Facts from flags. Raises ``UsageError`` for a value that cannot be meant."""
    facts: Facts = {}
    for name, spec in catalogue.facts.items():
        if spec.flag is None or spec.flag not in flags:
            continue
        text = flags[spec.flag]
        if name == "speculation":
            facts[name] = Fact(text not in {"false", "null", "None", ""}, "given", f"{source} {spec.flag}")
            facts |= _speculative(text, source)
            continue
        if spec.type == "number" and text.lower() in _LEFT_TO_VLLM:
            continue
        value = parse_value(spec, text)
        if value is None and spec.type == "flag":  # the word behind a switch is the model's name
            value = True
        if value is None:
            message = f"{source}: {spec.flag} {text!r} is not a {spec.type}"
            raise UsageError(message)
        if spec.type == "number" and not _possible(name, value):
            message = f"{source}: {spec.flag} {text} is out of range, vLLM does not start with it"
            raise UsageError(message)
        facts[name] = Fact(value, "given", f"{source} {spec.flag}")
    other = next((flag for flag in flags if flag.startswith(_SPEC_FLAGS)), None)
    if other is not None:
        facts.setdefault("speculation", Fact(value=True, provenance="given", source=f"{source} {other}"))
    elif flags and "--config" not in flags:
        facts.setdefault("speculation", Fact(value=False, provenance="given", source=f"{source} has no {_SPEC_FLAG}"))
    return facts


def _possible(name: str, value: float | str) -> bool:
    """Whether a number is one that vLLM starts with."""
    number = float(value)
    return (0 <= number <= 1) if name in _SHARES else number >= (1 if name in _AT_LEAST_ONE else 0)


def _speculative(text: str, source: str) -> Facts:
    try:
        config = json.loads(text)
    except ValueError:
        return {}
    count = config.get("num_speculative_tokens") if isinstance(config, dict) else None
    if not isinstance(count, int) or isinstance(count, bool):
        return {}
    return {"num_speculative_tokens": Fact(float(count), "given", f"{source} {_SPEC_FLAG}")}


def parse_value(spec: FactSpec, text: str) -> float | bool | str | None:
    """Read one value as the type of the fact; None when it is not one (``None``, ``auto``, garbage)."""
    plain = text.strip()
    if spec.equals is not None:
        return plain == spec.equals
    if spec.type == "text":
        return plain or None
    if spec.type == "flag":
        return {"true": True, "1": True, "false": False, "0": False}.get(plain.lower())
    factor = 1.0
    if plain and plain[-1] in _SUFFIX and NUMBER.match(plain[:-1]):
        factor, plain = float(_SUFFIX[plain[-1]]), plain[:-1]
    value = float(plain) * factor if NUMBER.match(plain) else math.inf
    return value if math.isfinite(value) else None


def reported(catalogue: Catalogue, labels: Mapping[str, str], engines: int) -> Facts:
    """Facts from the labels of ``cache_config_info``; ``engines`` share the server (num_gpu_blocks is their sum)."""
    facts: Facts = {}
    for name, spec in catalogue.facts.items():
        text = labels.get(spec.label) if spec.label is not None else None
        value = parse_value(spec, text) if text is not None else None
        if value is None:
            continue
        if name == "num_gpu_blocks" and isinstance(value, float):
            value = value / max(engines, 1)
        facts[name] = Fact(value, "reported", f"cache_config_info {spec.label}")
    return facts


def defaults(catalogue: Catalogue, version: VllmVersion | None = None) -> Facts:
    """Facts that hold when nothing else is known; those of a release only where all that can be running agree."""
    facts = {
        name: Fact(spec.default, "default", spec.note or "default")
        for name, spec in catalogue.facts.items()
        if spec.default is not None
    }
    for name, spec in catalogue.facts.items() if version is not None else ():
        for one in spec.defaults:
            if version is not None and _covers(one, version):
                facts[name] = Fact(one.value, "default", f"default of vLLM {version.text}")
    return facts


def _covers(default: ReleaseDefault, version: VllmVersion) -> bool:
    ends = (Release(version.first), Release(version.last))
    return all(end in default.releases for end in ends) and default.engine in {None, *_only(version.engines)}


def _only(engines: Sequence[str]) -> Sequence[str]:
    return engines if len(engines) == 1 else ()


def known_flags(catalogue: Catalogue) -> Sequence[str]:
    """Flags that become facts, for messages."""
    return sorted({spec.flag for spec in catalogue.facts.values() if spec.flag})
