"""Words that every report shares: text from outside made harmless, and names of engines and signals.

Whatever comes from labels or settings is hostile until ``printable`` has seen it: newlines, escape codes and marks
that turn the direction of writing are shown as escapes.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate

from palanca.model import Catalogue, Target

ELLIPSIS = "…"
Setting = float | bool | str | None
"""Value of a lever."""
NAMES_SHOWN = 3
"""Engines named in a group before "and N more"."""

_CREDENTIALS = re.compile(r"//[^/?#\s]*@")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_EAST_ASIAN = 0x2E80
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def without_credentials(text: str) -> str:
    """Take ``user:password@`` out of the URLs in a text."""
    return _CREDENTIALS.sub("//", text)


def encodable(text: str) -> str:
    """Replace lone surrogates, which JSON strings may hold but UTF-8 cannot."""
    return _SURROGATE.sub("\ufffd", text)


def printable(text: str) -> str:
    """Show control, format and unassigned characters as escapes, such as a line feed as backslash and n."""
    if text.isprintable():
        return text
    return "".join(_escape(letter) if unicodedata.category(letter) in _UNSEEN else letter for letter in text)


def _escape(letter: str) -> str:
    code = ord(letter)
    if letter in _SHORT:
        return _SHORT[letter]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004


def cells(text: str) -> int:
    """Columns that a text takes in a terminal, at most.

    Terminals know other releases of Unicode than Python: what some of them draw wide is wide here.
    """
    return len(text) if text.isascii() else sum(2 if _wide(letter) else 1 for letter in text)


def _wide(letter: str) -> bool:
    if unicodedata.east_asian_width(letter) in {"W", "F"}:
        return True
    return ord(letter) >= _EAST_ASIAN or unicodedata.category(letter) == "So"


def clip(text: str, width: int) -> str:
    """Cut a text to so many columns, with an ellipsis in the middle: both ends tell engines apart."""
    if cells(text) <= width:
        return text
    head = fit(text, (width - 1) // 2)
    tail = fit(text[::-1], width - 1 - cells(head))[::-1]
    return head + ELLIPSIS + tail


def fit(text: str, width: int) -> str:
    """The longest beginning of a text that takes at most so many columns."""
    return text[: sum(used <= width for used in accumulate(map(cells, text)))]


def plural(count: int, word: str) -> str:
    """``1 engine``, ``3 engines``."""
    return f"{count} {word}" if count == 1 else f"{count:,} {word}s"


def listing(items: Sequence[str], shown: int = NAMES_SHOWN) -> str:
    """``a, b, c and 2 more``."""
    if len(items) <= shown + 1:
        return ", ".join(items)
    return f"{', '.join(items[:shown])} and {len(items) - shown} more"


def setting(value: Setting) -> str:
    """A value as it is written on a command line."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        return printable(value)
    return str(int(value)) if math.isfinite(value) and float(value).is_integer() else f"{value:.6g}"


_CAPITALS = {"kv": "KV", "ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "e2e": "E2E", "http": "HTTP", "vllm": "vLLM"}


def signal_title(name: str, catalogue: Catalogue | None = None) -> str:
    """Title of a signal: the catalogue's, or the name in words (``kv_cache_usage`` -> ``KV cache usage``)."""
    signal = catalogue.signals.get(name) if catalogue else None
    if signal:
        return printable(signal.title)
    words = re.sub("[a-z0-9]+", lambda word: _CAPITALS.get(word[0], word[0]), printable(name).replace("_", " "))
    return words if words[:1] != name[:1] or words.startswith("vLLM") else words[:1].upper() + words[1:]


def target_name(target: Target) -> str:
    """Short name of an engine: ``model @ instance``, with ``engine N`` after the first; else its labels."""
    labels = target.as_dict()
    engine = labels.get("engine", "0")
    return _short(labels) + (f" engine {printable(engine)}" if engine != "0" and _short(labels)[0] != "{" else "")


def _short(labels: Mapping[str, str]) -> str:
    model, instance = printable(labels.get("model_name", "")), printable(labels.get("instance", ""))
    if instance:
        return f"{model} @ {instance}" if model else instance
    return _braces(labels)


def _braces(labels: Mapping[str, str]) -> str:
    inner = ", ".join(f'{printable(name)}="{printable(value)}"' for name, value in labels.items())
    return "{" + inner + "}"


def target_names(targets: Sequence[Target]) -> dict[Target, str]:
    """Names that tell the engines apart: engines of equal short names get the labels in which they differ."""
    short = {target: _short(target.as_dict()) for target in targets}
    counts = Counter(short.values())
    return {target: name if counts[name] == 1 else _longer(target, targets, short) for target, name in short.items()}


def _longer(target: Target, targets: Sequence[Target], short: Mapping[Target, str]) -> str:
    same = [other.as_dict() for other in targets if short[other] == short[target]]
    labels = target.as_dict()
    names = sorted({name for other in same for name in other})
    differ = [name for name in names if len({other.get(name) for other in same}) > 1]
    more = [f"{printable(name)} {printable(labels[name])}" for name in differ if name in labels]
    return " ".join([short[target], *more])


def group_name(labels: Mapping[str, str]) -> str:
    """Name of what a fleet rule compared: ``model llama``."""
    model = labels.get("model_name")
    return f"model {printable(model)}" if model else _braces(dict(sorted(labels.items())))


def some_engines(targets: Sequence[Target], total: int, names: Mapping[Target, str]) -> str:
    """A few engines by name, many by number, all by nothing."""
    if len(targets) == total:
        return ""
    few = len(targets) <= NAMES_SHOWN
    return listing([clip(names[target], 60) for target in targets]) if few else f"{len(targets):,} of {total:,} engines"
