"""One file, the environment and flags become the settings: flags > environment > file > defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from palanca.errors import Fault, RuleFileError
from palanca.loader import Keys, fault_of, read
from palanca.model import Spec
from palanca.settings.environment import FILE_VARIABLE, variables
from palanca.settings.places import Merged, Origin
from palanca.settings.routes import receiver_faults
from palanca.settings.scalars import Database
from palanca.settings.spec import Settings


@dataclass(frozen=True)
class Flag:
    """An option of the command line: ``Flag("--port", ("listen", "port"), 9797)``; None is not given."""

    option: str
    keys: tuple[str, ...]
    value: object


@dataclass(frozen=True)
class Effective:
    """The settings with their origins.

    With ``faults``, the sections of the top level that ``faulty`` names are at their defaults, or without the elements
    that have faults.
    """

    settings: Settings
    path: Path | None
    faults: tuple[Fault, ...] = ()
    faulty: frozenset[str] = frozenset()
    merged: Merged = field(default_factory=Merged, repr=False)

    def origin(self, *keys: str | int) -> Origin:
        """Return where a value comes from: ``origin("listen", "port")``."""
        return self.merged.origin(keys)

    def fault(self, keys: Keys, message: str, hint: str = "", offset: int = 0) -> Fault:
        """Make a fault at a value: file:line:column, or the name of the variable or flag."""
        return self.merged.fault(keys, message, hint, offset)


def settings_file(option: Path | None, environ: Mapping[str, str]) -> Path | None:
    """Return the file to read: the one of the option, else the one that ``PALANCA_CONFIG`` names."""
    named = environ.get(FILE_VARIABLE, "").strip()
    return option if option is not None else Path(named) if named else None


def load_settings(path: Path | None, environ: Mapping[str, str], flags: Sequence[Flag] = ()) -> Settings:
    """Return the settings. Raises ``RuleFileError`` with every fault of the file, the environment and the flags."""
    return load(path, environ, flags).settings


def load(path: Path | None, environ: Mapping[str, str], flags: Sequence[Flag] = ()) -> Effective:
    """Return the settings with their origins. Raises ``RuleFileError`` with every fault."""
    made = examine(path, environ, flags)
    if made.faults:
        raise RuleFileError(made.faults)
    return made


def examine(path: Path | None, environ: Mapping[str, str], flags: Sequence[Flag] = ()) -> Effective:
    """Return what can be read, and list all faults instead of raising them."""
    merged, faults = Merged(), list[Fault]()
    if path is not None:
        try:
            _begin(merged, path)
        except RuleFileError as error:
            faults += error.faults
    found, more = variables(environ)
    for variable in found:
        merged.put(variable.value, "environment", variable.name)
    for flag in flags:
        if flag.value is not None:
            merged.put(_nested(flag.keys, flag.value), "flag", flag.option)
    settings, invalid, faulty = _validated(merged)
    settings = _with_clusters(_rooted(settings, (), merged))
    made = Effective(settings, path, (*faults, *more, *merged.faults, *invalid), faulty, merged)
    return replace(made, faults=(*made.faults, *_twice(made)))


def _begin(merged: Merged, path: Path) -> None:
    document = read(path)
    merged.document = document
    if not isinstance(document.data, dict):
        raise RuleFileError([document.fault((), "keys and values are needed here", "e.g. interval: 30s")])
    merged.data = {key: value for key, value in document.data.items() if value is not None}  # a key alone says nothing


def _nested(keys: tuple[str, ...], value: object) -> dict[str, Any]:
    first, *rest = keys
    return {first: _nested(tuple(rest), value) if rest else value}


def _validated(merged: Merged) -> tuple[Settings, list[Fault], frozenset[str]]:
    """Validate; return what has no faults, the faults, and the sections of the top level that have some."""
    try:
        return Settings.model_validate(merged.data), [], frozenset()
    except ValidationError as error:
        details = error.errors()
    faults = [fault_of(merged, Settings, one) for one in details]
    faulty: dict[str, set[str | int | None]] = {}
    for one in details:
        section, *rest = one["loc"]
        faulty.setdefault(str(section), set()).add(rest[0] if rest else None)
    sound = {key: value for key, value in merged.data.items() if key not in faulty}
    for section, places in faulty.items():
        whole = merged.data[section]
        if isinstance(whole, list) and None not in places:
            merged.kept[section] = [index for index in range(len(whole)) if index not in places]
            sound[section] = [whole[index] for index in merged.kept[section]]
    return Settings.model_validate(sound), faults, frozenset(faulty)


def _rooted(value: Any, keys: Keys, merged: Merged) -> Any:  # noqa: ANN401  whatever a setting can be
    """Make relative paths of the file relative to its folder; those of variables and flags are as they are."""
    if isinstance(value, Spec):
        fields = {name: one.alias or name for name, one in type(value).model_fields.items()}
        return value.model_copy(
            update={name: _rooted(getattr(value, name), (*keys, alias), merged) for name, alias in fields.items()}
        )
    if isinstance(value, tuple):
        return tuple(_rooted(one, (*keys, index), merged) for index, one in enumerate(value))
    if isinstance(value, dict):
        return {key: _rooted(one, (*keys, key), merged) for key, one in value.items()}
    origin = merged.origin(keys) if isinstance(value, Path | Database) else None
    if origin is None or origin.kind != "file":
        return value
    folder = Path(origin.name).parent
    if isinstance(value, Path):
        return folder / value
    return value if value.path is None else Database(str(folder / value.path), path=folder / value.path)


def _with_clusters(settings: Settings) -> Settings:
    """Several sources are told apart by their names, where they have no labels of their own."""
    if len(settings.sources) < 2:  # noqa: PLR2004  several
        return settings
    sources = tuple(
        one if one.labels else one.model_copy(update={"labels": {"cluster": one.name}}) for one in settings.sources
    )
    return settings.model_copy(update={"sources": sources})


def _twice(made: Effective) -> list[Fault]:
    """Names that are taken already."""
    faults = []
    for keys, names in (
        (("sources",), [one.name for one in made.settings.sources]),
        (("auth", "tokens"), [one.name for one in made.settings.auth.tokens]),
        (("notify", "slack"), [one.name for one in made.settings.notify.slack]),
        (("notify", "webhooks"), [one.name for one in made.settings.notify.webhooks]),
    ):
        for index, name in enumerate(names):
            if name in names[:index]:
                first = made.merged.origin((*keys, names.index(name), "name"))
                at = (*keys, index, "name")
                faults.append(made.fault(at, f"{name!r} is already the name of another ({first})", "choose another"))
    return [*faults, *_receivers(made)]


def _receivers(made: Effective) -> list[Fault]:
    """Find names that two kinds of receivers share, and routes to receivers that do not exist."""
    notify, faults = made.settings.notify, []
    if "notify" in made.faulty:
        return []
    channels = [one.name for one in notify.slack]
    for index, hook in enumerate(notify.webhooks):
        if hook.name in channels:
            at = ("notify", "webhooks", index, "name")
            faults.append(made.fault(at, f"{hook.name!r} is already the name of a Slack receiver", "choose another"))
    faults += receiver_faults(made)
    if notify.path == "direct" and not made.settings.history.enabled:
        message = "palanca tells nobody without the history, which remembers what was told"
        faults.append(made.fault(("notify", "path"), message, "set history.enabled: true"))
    return faults
