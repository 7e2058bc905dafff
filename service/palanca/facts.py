"""Facts of a target: reported by ``cache_config_info``, given by the operator, inferred from load, or a default."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from palanca import expressions
from palanca.errors import UsageError
from palanca.model import Fact, State, Truth
from palanca.releases import Release
from palanca.signals.versions import available

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from palanca.model import Catalogue, FactSpec, Readings, ReleaseDefault, Target, VllmVersion

Facts = dict[str, Fact]

NARROW_KV = ("fp8", "int8", "int4", "nvfp4", "turboquant")
"""Beginnings of --kv-cache-dtype values below 16 bits (vLLM's released code, --kv-cache-dtype)."""
PLATEAU = 0.95
KV_FREE = 0.9
INFERENCE_SIGNALS = ("running_now", "waiting_now")
"""Signals whose past the inference of slots reads; of all others it needs the last step only."""
ENOUGH_SAMPLES = 4
AT_PLATEAU = 0.9
POWER_OF_TWO_TOLERANCE = 0.03
SMALLEST_BUDGET = 64
PREFILL_HEAVY = 8.0

_ALIASES = {
    "--device-memory-utilization": "--gpu-memory-utilization",
    "--max-num-active-seqs": "--max-num-seqs",
    "--spec-tokens": "--num-speculative-tokens",
    "--speculative-config.num-speculative-tokens": "--num-speculative-tokens",
}
_SHORT = {
    "-tp": "--tensor-parallel-size",
    "-dp": "--data-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-sc": "--speculative-config",
}
_NUMBER = re.compile(r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$", re.IGNORECASE)
_LEFT_TO_VLLM = frozenset({"auto", "none", "null", "-1"})
_AT_LEAST_ONE = frozenset({"max_num_seqs", "max_num_batched_tokens", "max_model_len", "block_size"})
_SHARES = frozenset({"gpu_memory_utilization", "watermark"})
_CONTINUED = re.compile(r"\\\r?\n")
_SUFFIX = {"k": 1000, "m": 1000**2, "g": 1000**3, "K": 1024, "M": 1024**2, "G": 1024**3}


@dataclass(frozen=True)
class GivenFlag:
    """A flag in the words of a command line, ``words[start:end]``: its plain name and its value.

    A switch has the value ``"true"``, a negated one (``--no-enable-chunked-prefill``) ``"false"`` under its plain name.
    """

    start: int
    end: int
    name: str
    value: str


def words_of(text: str) -> list[str]:
    """Split a command line into words, as a shell does. Raises ``UsageError``."""
    try:
        return shlex.split(_CONTINUED.sub(" ", text))
    except ValueError as error:
        message = f"--serve-args cannot be read as a command line: {error}"
        raise UsageError(message) from None


def flags_in(words: Sequence[str]) -> Iterator[GivenFlag]:
    """Yield the flags among the words of a command line."""
    index = 0
    while index < len(words):
        start, word = index, words[index]
        index += 1
        if not word.startswith("-") or _NUMBER.match(word):
            continue
        name, equals, value = word.partition("=")
        name = _SHORT.get(name, name).replace("_", "-")
        if not equals and index < len(words) and (not words[index].startswith("-") or _NUMBER.match(words[index])):
            value, index = words[index], index + 1
        elif not equals:
            value = "true"
        if name.startswith("--no-"):
            name, value = "--" + name[5:], "false"
        yield GivenFlag(start, index, _ALIASES.get(name, name), value)


def parse_serve_args(text: str) -> dict[str, str]:
    """Read the flags of a ``vllm serve`` command line: ``{"--max-num-seqs": "64", "--enforce-eager": "true"}``.

    Raises ``UsageError``.
    """
    return {flag.name: flag.value for flag in flags_in(words_of(text))}


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


_SPEC_FLAG = "--speculative-config"
_SPEC_FLAGS = ("--speculative-", "--spec-", "--num-speculative-tokens")


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
    if plain and plain[-1] in _SUFFIX and _NUMBER.match(plain[:-1]):
        factor, plain = float(_SUFFIX[plain[-1]]), plain[:-1]
    value = float(plain) * factor if _NUMBER.match(plain) else math.inf
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


def add_facts(
    readings: Readings,
    catalogue: Catalogue,
    *,
    flags: Mapping[str, str] | None = None,
    objectives: Mapping[str, float] | None = None,
    servers: Mapping[str, Mapping[str, Fact]] | None = None,
    settings: Callable[[Target], Mapping[str, Fact]] | None = None,
) -> Readings:
    """Return the readings with the facts of every target; what is given wins over what is reported or inferred.

    ``servers`` are facts that servers report outside of their metrics, by instance; ``settings`` gives those that the
    operator wrote down for a target.
    """
    made, asked = [], given(catalogue, flags or {})
    asked |= {name: Fact(value, "given", "--slo") for name, value in (objectives or {}).items()}
    labels = [spec.label for spec in catalogue.facts.values() if spec.label is not None]
    places = [_server(target) for target in readings.targets]
    engines = Counter(place for place, target in zip(places, readings.targets, strict=True) if target.get("engine"))
    plain = cache(partial(defaults, catalogue))
    known: dict[object, Facts] = {}
    for row, target in enumerate(readings.targets):
        version, info, count = readings.versions[row], readings.info[row], engines[places[row]]
        inferred = infer(readings, row, catalogue)
        told = (servers or {}).get(target.get("instance"), {})
        own = settings(target) if settings is not None else {}
        parts = [tuple(facts.items()) for facts in (inferred, told, own)]
        key = (version, count, *map(info.get, labels), *parts)
        if key not in known:  # many engines are alike
            reports = reported(catalogue, info, count)
            known[key] = complete(catalogue, {**plain(version), **inferred, **reports, **told, **own, **asked})
        made.append(known[key])
    return replace(readings, facts=tuple(made))


def _server(target: Target) -> tuple[tuple[str, str], ...]:
    """Labels that the engines of one server share: all but ``engine``."""
    return tuple((name, value) for name, value in target.labels if name != "engine")


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


def complete(catalogue: Catalogue, facts: Facts) -> Facts:
    """Derive what follows from other facts."""
    made = dict(facts)
    dtype = made.get("kv_cache_dtype")
    if dtype is not None:
        made["fp8_kv"] = Fact(str(dtype.value).startswith(NARROW_KV), dtype.provenance, dtype.source)
    override, in_bytes = made.get("num_gpu_blocks_override"), made.get("kv_cache_memory_bytes")
    for name, by_hand in (("kv_override", override), ("kv_blocks_set_by_hand", override or in_bytes)):
        if by_hand is not None:
            made[name] = Fact(value=True, provenance=by_hand.provenance, source=by_hand.source)
        elif any(
            made[one].provenance == "reported" for one in ("num_gpu_blocks", "gpu_memory_utilization") if one in made
        ):
            made[name] = Fact(value=False, provenance="reported", source="no size of the KV cache is set by hand")
    for name, spec in catalogue.facts.items():
        if spec.derive is None or name in made:
            continue
        node = expressions.parse(spec.derive)
        parts = [made.get(part) for part in expressions.names(node)]
        if all(part is not None for part in parts):
            value = float(expressions.number(node, _Scalars(made)))
            made[name] = Fact(value, parts[0].provenance, spec.derive)  # type: ignore[union-attr]
    return made


class _Scalars:
    """Lets a formula over facts read them."""

    def __init__(self, facts: Mapping[str, Fact]) -> None:
        self._facts = facts

    def number(self, name: str) -> NDArray[np.float64]:
        fact = self._facts.get(name)
        usable = fact is not None and isinstance(fact.value, int | float) and not isinstance(fact.value, bool)
        return np.asarray(float(fact.value) if fact is not None and usable else np.nan)

    def fleet(self, function: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
        raise KeyError(f"{function} of {values.shape} values")

    def flag(self, name: str) -> NDArray[np.uint8]:
        fact = self._facts.get(name)
        return np.asarray(np.uint8(Truth.UNKNOWN if fact is None else bool(fact.value)))

    def not_applicable(self, name: str) -> NDArray[np.bool_]:
        del name
        return np.zeros((), dtype=bool)


# --- inference (docs/design.md) ----------------------------------------------------------------


def infer(readings: Readings, row: int, catalogue: Catalogue) -> Facts:
    """Infer slots, token budget and speculation of one target from what it did over the grid."""
    facts: Facts = {}
    slots = infer_slots(readings, row)
    if slots is not None:
        facts["max_num_seqs"] = Fact(slots, "inferred", "running stays at this value while requests wait")
    budget = infer_token_budget(readings, row)
    if budget is not None:
        facts["max_num_batched_tokens"] = Fact(budget, "inferred", "mean tokens per step while requests wait")
    speculation = readings.signals.get("drafts_per_second")
    drafts = catalogue.metrics.families["spec_drafts"].names
    if speculation is not None and available(drafts, readings.versions[row]):
        state = State(int(speculation.states[row, -1]))
        if state is not State.STALE:
            on = state < State.ABSENT or state is State.IDLE
            facts["speculation"] = Fact(on, "inferred", f"speculation series are {'there' if on else 'not there'}")
    if "speculation" in facts and facts["speculation"].value:
        length = _last(readings, "draft_length", row)
        if np.isfinite(length) and abs(length - round(length)) < POWER_OF_TWO_TOLERANCE and round(length) > 0:
            facts["num_speculative_tokens"] = Fact(float(round(length)), "inferred", "tokens per draft")
    return facts


def _last(readings: Readings, name: str, row: int) -> float:
    return float(readings.signals[name].values[row, -1]) if name in readings.signals else float("nan")


def infer_slots(readings: Readings, row: int) -> float | None:
    """Most running, if at least 90 % of the samples with waiting > 0 are within 5 % of it and KV stays below 0.9.

    Deferred requests do not count as waiting: no slot holds them.
    """
    if not {"running_now", "waiting_now", "running_max"} <= set(readings.signals):
        return None
    window = readings.signals["running_max"].window[row, -1]
    steps = readings.times >= readings.times[-1] - window
    running, waiting = (readings.signals[name].values[row, steps] for name in ("running_now", "waiting_now"))
    most = _last(readings, "running_max", row)
    with np.errstate(invalid="ignore"):
        queued = running[(waiting > 0) & np.isfinite(running)]
    free = _last(readings, "kv_cache_usage_max", row) < KV_FREE and _last(readings, "waiting_capacity", row) >= 1
    if len(queued) < ENOUGH_SAMPLES or not most >= 1 or not free:
        return None
    return most if np.mean(queued >= PLATEAU * most) >= AT_PLATEAU else None


def infer_token_budget(readings: Readings, row: int) -> float | None:
    """Mean tokens per step, if within 3 % of a power of two while requests wait.

    Only where the KV cache is free and steps are mostly prefill: a KV-bound batch may pass a power of two by chance.
    """
    mean = _last(readings, "iteration_tokens_mean", row)
    prefill = _last(readings, "step_tokens_per_running", row) > PREFILL_HEAVY
    free = _last(readings, "kv_cache_usage_max", row) < KV_FREE
    if not (_last(readings, "waiting_min", row) > 0 and prefill and free and SMALLEST_BUDGET <= mean < np.inf):
        return None
    power = float(2 ** round(np.log2(mean)))
    return power if abs(mean / power - 1) <= POWER_OF_TWO_TOLERANCE else None


def known_flags(catalogue: Catalogue) -> Sequence[str]:
    """Flags that become facts, for messages."""
    return sorted({spec.flag for spec in catalogue.facts.values() if spec.flag})
