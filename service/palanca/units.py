"""Units of signals, facts and thresholds, and the arithmetic that expressions do on them.

A unit is a product of words with exponents: ``tokens/s``, ``1/min``, ``tokens/request``. ``ratio`` and ``1`` are the
empty product. Plural and singular are the same word.
"""

from __future__ import annotations

from dataclasses import dataclass

_WORDS = {
    "requests": "request", "tokens": "token", "blocks": "block", "drafts": "draft", "preemptions": "preemption",
    "restarts": "restart", "engines": "engine", "steps": "step", "samples": "sample",
}  # fmt: skip
_PLURALS = {singular: plural for plural, singular in _WORDS.items()}
_KNOWN = frozenset({"s", "min", "bytes", "flops", *_WORDS.values()})
_NONE = frozenset({"", "1", "ratio"})


@dataclass(frozen=True)
class Unit:
    """A product of words: ``(("s", -1), ("token", 1))``, sorted; empty for a ratio."""

    powers: tuple[tuple[str, int], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Unit:
        """Read ``tokens/s`` and the like. Raises ``ValueError`` for an unknown word."""
        powers: dict[str, int] = {}
        above, slash, below = text.partition("/")
        for part, sign in ((above, 1), (below, -1)):
            for word in part.replace("*", " ").split():
                if word in _NONE:
                    continue
                plain = _WORDS.get(word, word)
                if plain not in _KNOWN:
                    message = f"{word!r} in {text!r} is no unit"
                    raise ValueError(message)
                powers[plain] = powers.get(plain, 0) + sign
        if slash and not below.strip():
            message = f"{text!r} ends with a slash"
            raise ValueError(message)
        return cls._of(powers)

    @classmethod
    def _of(cls, powers: dict[str, int]) -> Unit:
        return cls(tuple(sorted((word, power) for word, power in powers.items() if power)))

    def times(self, other: Unit, sign: int = 1) -> Unit:
        """Multiply (``sign=1``) or divide (``sign=-1``)."""
        powers = dict(self.powers)
        for word, power in other.powers:
            powers[word] = powers.get(word, 0) + sign * power
        return self._of(powers)

    @property
    def plural(self) -> str:
        """As it stands behind a number: ``tokens/s``; ``ratio`` for the empty product."""
        above, slash, below = str(self).partition("/")
        return " ".join(_PLURALS.get(word, word) for word in above.split(" ")) + slash + below

    def __str__(self) -> str:
        """``token/s``; ``ratio`` for the empty product."""
        above = [word for word, power in self.powers for _ in range(power)]
        below = [word for word, power in self.powers for _ in range(-power)]
        if not above and not below:
            return "ratio"
        return " ".join(above or ["1"]) + ("/" + " ".join(below) if below else "")


RATIO = Unit()
ENGINES = Unit((("engine", 1),))
ANY = Unit((("any", 1),))
"""The unit of a literal 0, which fits every other."""
