"""Settings files for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from palanca.settings import Effective, Flag, Settings, examine, load


def written(place: Path, text: str, name: str = "palanca.yaml") -> Path:
    """A file with this text."""
    path = place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def secret(place: Path, name: str, text: str = "0123456789abcdef0123456789abcdef\n", mode: int = 0o600) -> Path:
    """A file that holds a secret."""
    path = written(place, text, name)
    path.chmod(mode)
    return path


def loaded(place: Path, text: str, environ: Mapping[str, str] | None = None, *flags: Flag) -> Effective:
    """The settings of a file, without faults."""
    return load(written(place, text), environ or {}, flags)


def settings(place: Path, text: str) -> Settings:
    """The same without origins."""
    return loaded(place, text).settings


def faults(place: Path, text: str, environ: Mapping[str, str] | None = None, *flags: Flag) -> list[str]:
    """All faults, without the folder of the file."""
    made = examine(written(place, text), environ or {}, flags)
    return [str(fault).replace(f"{place}/", "") for fault in made.faults]
