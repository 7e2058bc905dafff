"""What differs between two settings, and what of it needs a restart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from palanca.model import Spec
from palanca.settings.show import shown
from palanca.settings.spec import Settings

RESTART = ("listen", "history.enabled", "history.database", "history.database_file", "log.format")
"""Settings that a running service cannot take over; all others are reloaded."""


@dataclass(frozen=True)
class Change:
    """One setting that differs: ``key`` is dotted, elements with a name bear it; None where one side lacks it."""

    key: str
    old: str | None
    new: str | None

    @property
    def restart(self) -> bool:
        """Whether it takes effect only after a restart."""
        return any(self.key == one or self.key.startswith((f"{one}.", f"{one}[")) for one in RESTART)

    def __str__(self) -> str:
        """``interval: 30s -> 1m``; values that are secret are not shown."""
        if self.old == self.new:
            return f"{self.key}: changed"
        return f"{self.key}: {_word(self.old)} -> {_word(self.new)}"


def changed(old: Settings, new: Settings) -> tuple[Change, ...]:
    """List what differs, sorted by key. Secrets that differ are told without their values."""
    before, after = dict(_leaves(old, "")), dict(_leaves(new, ""))
    return tuple(
        Change(key, _text(before, key), _text(after, key))
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key) or (key in before) != (key in after)
    )


def _text(side: Mapping[str, tuple[object, str]], key: str) -> str | None:
    return side[key][1] if key in side else None


def _word(text: str | None) -> str:
    return "not there" if text is None else text


def _leaves(value: Spec, key: str) -> Iterator[tuple[str, tuple[object, str]]]:
    """Every value with its dotted key, as it is and as it is shown."""
    for name, field in type(value).model_fields.items():
        here, one = f"{key}.{field.alias or name}".removeprefix("."), getattr(value, name)
        if isinstance(one, Spec):
            yield from _leaves(one, here)
        elif isinstance(one, tuple) and one and isinstance(one[0], Spec):
            for index, element in enumerate(one):
                yield from _leaves(element, f"{here}[{getattr(element, 'name', index)}]")
        elif isinstance(one, Mapping) and one:
            for entry, part in one.items():
                yield f"{here}.{entry}", (part, str(shown(part)))
        else:
            yield here, (one, str(shown(one, field)))
