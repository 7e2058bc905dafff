"""vLLM releases: order and closed ranges. ``0.8.5.post1`` comes after ``0.8.5``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache, total_ordering

_RELEASE = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:\.?post(\d+))?(?:[.+-]?(?:rc|dev|\+).*)?$")


@lru_cache(maxsize=1024)
def _key(text: str) -> tuple[int, ...]:
    found = _RELEASE.match(text.strip())
    if found is None:
        message = f"{text!r} is not a vLLM release such as 0.10.2 or 0.8.5.post1"
        raise ValueError(message)
    return tuple(int(part or 0) for part in found.groups())


@total_ordering
@dataclass(frozen=True)
class Release:
    """One vLLM release, e.g. ``0.10.1.1`` or ``0.8.5.post1``."""

    text: str

    @property
    def key(self) -> tuple[int, ...]:
        """Sort key. Raises ``ValueError`` when the text is not a release number."""
        return _key(self.text)

    def __lt__(self, other: Release) -> bool:
        """Order by number, not by text."""
        return self.key < other.key

    def __eq__(self, other: object) -> bool:
        """``0.33`` equals ``0.33.0``."""
        return isinstance(other, Release) and self.key == other.key

    def __hash__(self) -> int:
        """Agree with equality."""
        return hash(self.key)

    def __str__(self) -> str:
        """The text as given."""
        return self.text


@dataclass(frozen=True)
class ReleaseRange:
    """A closed range of releases; ``last is None`` means "and newer"."""

    first: Release
    last: Release | None = None

    @classmethod
    def parse(cls, text: str) -> ReleaseRange:
        """Read ``0.4.0-0.10.2``, ``0.33.0`` (that one) or ``0.24.0+`` (from there on). Raises ``ValueError``."""
        first, dash, last = text.strip().partition("-")
        if "+" in last or "+" in first[:-1]:
            message = f"{text!r} is not a vLLM release such as 0.10.2 or a range such as 0.4.0-0.10.2 or 0.24.0+"
            raise ValueError(message)
        if first.endswith("+") and not dash:
            made = cls(Release(first[:-1].strip()))
        else:
            made = cls(Release(first.strip()), Release((last if dash else first).strip()))
        if made.last is not None and made.last < made.first:
            message = f"the release range {text!r} ends before it begins"
            raise ValueError(message)
        _ = made.first.key
        return made

    def __contains__(self, release: Release) -> bool:
        """Both ends belong to the range."""
        return self.first <= release and (self.last is None or release <= self.last)

    def overlaps(self, other: ReleaseRange) -> bool:
        """Whether some release belongs to both."""
        ours, theirs = self.last or other.first, other.last or self.first
        return self.first <= theirs and other.first <= ours

    def __str__(self) -> str:
        """In the form that ``parse`` reads."""
        if self.last is None:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
