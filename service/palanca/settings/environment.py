"""Settings from environment variables: ``PALANCA_LISTEN__PORT=9797``, nested by ``__``, lists and mappings as JSON.

``PALANCA_SOURCES__0__PROMETHEUS`` reaches into a list. Empty variables count as not given, and so do those that
Kubernetes makes up for a service of the name ``palanca`` (``PALANCA_PORT=tcp://10.0.0.1:9797``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, SettingsError

from palanca.errors import Fault
from palanca.settings.places import named_fault
from palanca.settings.spec import Settings

PREFIX = "PALANCA_"
NESTED = "__"
FILE_VARIABLE = "PALANCA_CONFIG"
"""Names the settings file, where no flag does."""
_SERVICE_LINK = re.compile(
    r"PALANCA(_[A-Z0-9]+)*?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_LINK = re.compile(r"(tcp|udp|sctp)://")


class _Variables(Settings, BaseSettings):
    """The same settings, read by pydantic-settings."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter=NESTED, extra="forbid", frozen=True)


@dataclass(frozen=True)
class Variable:
    """What one variable says: ``value`` is nested plain data."""

    name: str
    value: Mapping[str, Any]


def variables(environ: Mapping[str, str]) -> tuple[list[Variable], list[Fault]]:
    """Read the variables of palanca, general ones before those that reach deeper, and list every fault in them."""
    found, faults = [], []
    for name in sorted(_ours(environ), key=_depth):
        try:
            made = _read(name, environ[name])
        except SettingsError as error:
            cause = error.__cause__
            reason = f"not JSON: {cause.msg}" if isinstance(cause, json.JSONDecodeError) else "not JSON"
            faults.append(named_fault(name, reason, 'e.g. ["a", "b"] or {"a": "b"}'))
            continue
        if made:
            found.append(Variable(name, made))
        else:
            faults.append(named_fault(name, "there is no such setting", _meant(name.upper())))
    return found, faults


def _ours(environ: Mapping[str, str]) -> Iterator[str]:
    for name, value in environ.items():
        link = _SERVICE_LINK.fullmatch(name) or (name.endswith("_PORT") and _LINK.match(value))
        if name.upper().startswith(PREFIX) and name.upper() != FILE_VARIABLE and not link and value.strip():
            yield name


def _depth(name: str) -> tuple[int, list[str]]:
    parts = name.split(NESTED)
    return len(parts), [part.zfill(9) if part.isdecimal() else part for part in parts]


def _read(name: str, text: str) -> dict[str, Any]:
    source = EnvSettingsSource(_Variables)
    source.env_vars = {name.lower(): text}
    return dict(source())


def _meant(name: str) -> str:
    """Return a hint: settings of that last name (``PALANCA_PORT``), else settings that look like it."""
    own = name.removeprefix(PREFIX)
    known = [one.removeprefix(PREFIX) for one in known_names()]
    close = [one for one in known if one.endswith(f"{NESTED}{own}")] or get_close_matches(own, known, n=2)
    if not close:
        return "palanca config schema lists the settings"
    return f"did you mean {' or '.join(PREFIX + one for one in close)}?"


def known_names() -> list[str]:
    """Variables of all settings down to the first list."""
    names = []
    for section, field in Settings.model_fields.items():
        names.append(PREFIX + section.upper())
        nested = getattr(field.annotation, "model_fields", {})
        names += [f"{PREFIX}{section}{NESTED}{key}".upper() for key in nested]
    return names
