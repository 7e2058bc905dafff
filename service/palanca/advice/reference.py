"""Published reference configurations, with the computed ceiling beside each claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from palanca.advice import fit
from palanca.advice.arithmetic import EFFICIENCY
from palanca.advice.hardware import NamedGpu
from palanca.advice.model_config import shape_of
from palanca.advice.size import Sizing, Wish, size

if TYPE_CHECKING:
    from palanca.advice.hardware import Claim, Hardware, Reference

Verdict = Literal["holds", "in part", "does not hold"]


@dataclass(frozen=True)
class CheckedClaim:
    """A claim, what the arithmetic says of it, and the numbers behind that."""

    claim: str
    verdict: Verdict
    computed: str
    ceiling: float
    unit: str
    note: str = ""


@dataclass(frozen=True)
class SizedReference:
    """A reference configuration for one release: its sizing and its claims."""

    id: str
    title: str
    source: str
    sizing: Sizing
    claims: tuple[CheckedClaim, ...]


def size_references(hardware: Hardware, release: str) -> tuple[SizedReference, ...]:
    """Size every reference configuration for a release, as written in ``hardware.yaml``."""
    return tuple(_sized(name, one, hardware, release) for name, one in hardware.references.items())


def _sized(name: str, reference: Reference, hardware: Hardware, release: str) -> SizedReference:
    gpu = NamedGpu(reference.gpu, hardware.gpus[reference.gpu])
    settings, draft = reference.settings, reference.draft
    slots = int(settings.get("max_num_seqs", 0)) or None
    longest = int(settings.get("max_model_len", 0)) or None
    swap = settings.get("swap_space")
    wish = Wish(
        shape=shape_of(reference.config, f"reference {name}"),
        gpu=gpu,
        gpus=reference.gpus,
        release=release,
        model=reference.model,
        users=slots,
        prompt=reference.load.prompt,
        generation=reference.load.generation,
        utilization=float(settings["gpu_memory_utilization"]) if "gpu_memory_utilization" in settings else None,
        budget=int(settings.get("max_num_batched_tokens", 0)) or None,
        slots=slots,
        max_model_len=longest,
        kv_type="fp8" if settings.get("kv_cache_dtype") == "fp8" else "auto",
        draft=(draft.model, draft.tokens, shape_of(draft.config, f"draft of {name}")) if draft else None,
        dtype=str(settings["dtype"]) if "dtype" in settings else None,
        swap_space=None if swap is None else int(swap),
    )
    sizing = size(wish, hardware.gpus)
    claims = tuple(_check(claim, sizing, slots or 1) for claim in reference.claims)
    return SizedReference(name, reference.title, reference.source, sizing, claims)


def _check(claim: Claim, sizing: Sizing, users: int) -> CheckedClaim:
    if claim.quantity == "tokens_per_second_per_user":
        return _decode(claim, sizing, users)
    return _users(claim, sizing) if claim.quantity == "users" else _first_token(claim, sizing, users)


def _decode(claim: Claim, sizing: Sizing, users: int) -> CheckedClaim:
    """Compare with the ceiling of one user, and of all users with the context that fits."""
    plan = sizing.plan
    held = min(_context_of(sizing, users), sizing.load.held)
    alone = 1 / fit.step(plan, 1, 0, 1.0)
    together, expected = 1 / fit.step(plan, users, held, 1.0), 1 / fit.step(plan, users, held, EFFICIENCY)
    low = claim.low if claim.low is not None else claim.high
    verdict: Verdict = "holds" if claim.high <= expected else "in part" if low <= together else "does not hold"
    computed = (
        f"ceiling {alone:.0f} tokens/s for one user; with {users} users of {held:,.0f} tokens {together:.0f} at the "
        f"nominal bandwidth, {expected:.0f} at {EFFICIENCY:g} of it, without speculation"
    )
    if claim.high > expected:
        computed += f"; {claim.high:g} needs {claim.high / expected:.1f} times that from speculation"
    text = f"{low:g}-{claim.high:g} tokens/s per user"
    return CheckedClaim(text, verdict, computed, together, "tokens/s", claim.note)


def _users(claim: Claim, sizing: Sizing) -> CheckedClaim:
    """Tell how long a context so many users can hold."""
    users = int(claim.high)
    held = _context_of(sizing, users)
    longest = sizing.wish.max_model_len or held
    verdict: Verdict = "holds" if held >= longest else "in part" if held > 0 else "does not hold"
    pool_tokens = sizing.value("kv_tokens")
    computed = (
        f"{pool_tokens:,.0f} tokens fit: {users} users hold {held:,.0f} tokens each, of a maximum of {longest:,.0f}"
    )
    return CheckedClaim(f"{users} users at once", verdict, computed, held, "tokens", claim.note)


def _first_token(claim: Claim, sizing: Sizing, users: int) -> CheckedClaim:
    """Compare with the prefill of the longest prompt alone, and of all users' at once."""
    prompt = claim.prompt_below or int(sizing.load.prompt)
    alone = fit.prefill_seconds(sizing.plan, prompt)
    verdict: Verdict = "does not hold" if alone > claim.high else "holds" if alone * users <= claim.high else "in part"
    computed = (
        f"a prompt of {prompt:,} tokens takes {alone * 1e3:.0f} ms alone; {users} at once take {alone * users:.1f} s, "
        f"so at most {1 / alone:.1f} such prompts/s"
    )
    return CheckedClaim(
        f"first token below {claim.high * 1e3:.0f} ms for prompts below {prompt:,} tokens",
        verdict, computed, alone, "s", claim.note,
    )  # fmt: skip


def _context_of(sizing: Sizing, users: int) -> float:
    """Return the tokens that each of ``users`` users can hold, at most the longest context."""
    fitting = sizing.value("kv_tokens") / users
    return min(fitting, sizing.wish.max_model_len or fitting)
