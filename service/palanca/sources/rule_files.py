"""Rules to be linted, from files and from a Prometheus, and what that Prometheus has for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from palanca.errors import Fault, RuleFileError, SourceError
from palanca.linting import Live, loaded, prometheus_1, yaml_rules
from palanca.linting.report import wanted_selectors
from palanca.linting.yaml_rules import HOLDS_NONE

if TYPE_CHECKING:
    from palanca.linting.rule import RuleSource
    from palanca.linting.vocabulary import Vocabulary
    from palanca.sources.prometheus import Prometheus

STDIN = "-"
MOST_SELECTORS = 1000
"""Questions to a Prometheus; what is beyond is not looked for."""
_LARGEST = 20_000_000  # bytes
_SUFFIXES = frozenset({".yml", ".yaml", ".json", ".rules"})


@dataclass(frozen=True)
class ReadFiles:
    """The files that could be read, and why others could not."""

    sources: tuple[RuleSource, ...]
    faults: tuple[Fault, ...]


def read_files(paths: Sequence[str], stdin: Callable[[], bytes]) -> ReadFiles:
    """Read files, folders (whatever in them holds rules, or nothing at all) and ``-``, the standard input.

    An empty file is one that Prometheus loads; an empty input is what a command before it has failed to write.
    """
    sources: list[RuleSource] = []
    faults: list[Fault] = []
    for path, in_folder in _listed(paths, faults):
        try:
            made = read_text(path, stdin() if path == STDIN else _bytes(Path(path)))
        except RuleFileError as error:
            faults += [one for one in error.faults if not (in_folder and one.message == HOLDS_NONE)]
            continue
        if path == STDIN and not made.rules:
            faults.append(Fault(Path(path), 0, 0, HOLDS_NONE))
        else:
            sources.append(made)
    if not sources and not faults:
        faults = [Fault(Path(path), 0, 0, "no file in it holds rules") for path in paths]
    return ReadFiles(tuple(sources), tuple(faults))


def _listed(paths: Iterable[str], faults: list[Fault]) -> Iterator[tuple[str, bool]]:
    """Files with whether they stood in a folder, each once; ``faults`` gets the folders that cannot be read."""
    seen: set[str] = set()
    for path in paths:
        folder = path != STDIN and Path(path).is_dir()
        for one in _inside(path, faults) if folder else [path]:
            if one not in seen:
                seen.add(one)
                yield one, folder


def _inside(folder: str, faults: list[Fault]) -> list[str]:
    """Files of a folder and of those in it; also links that lead nowhere, which cannot be read.

    Hidden ones are left out: behind the files of a mounted ConfigMap stand the same ones in a hidden folder.
    """
    found = []
    for place, folders, names in os.walk(folder, onerror=lambda error: faults.append(_unreadable(error))):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files = (Path(place, name) for name in names if not name.startswith("."))
        found += [str(one) for one in files if one.suffix in _SUFFIXES and _is_meant(one, faults)]
    return sorted(found)


def _is_meant(path: Path, faults: list[Fault]) -> bool:
    """Whether it is a file, or a link to nothing; ``faults`` gets what stands in a folder that may not be entered."""
    try:
        return path.is_file() or not path.exists()
    except OSError as error:
        faults.append(_unreadable(error))
        return False


def _unreadable(error: OSError) -> Fault:
    return Fault(Path(error.filename), 0, 0, f"cannot be read: {error.strerror or error}")


def _bytes(path: Path) -> bytes:
    try:
        if path.stat().st_size > _LARGEST:
            raise RuleFileError([Fault(path, 0, 0, f"larger than {_LARGEST} bytes; this is no rule file")])
        return path.read_bytes()
    except OSError as error:
        raise RuleFileError([_unreadable(error)]) from None


def read_text(path: str, raw: bytes) -> RuleSource:
    """Read the rules of a file in any of the forms. Raises ``RuleFileError``."""
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise RuleFileError([Fault(Path(path), line, 1, "not UTF-8 text", "save the file as UTF-8")]) from None
    if prometheus_1.is_prometheus_1(text):
        return prometheus_1.read(path, text)
    return yaml_rules.read(path, text)


# --- a Prometheus ----------------------------------------------------------------------------------


def read_loaded(client: Prometheus) -> tuple[RuleSource, ...]:
    """Read the rules that a Prometheus has loaded. Raises ``SourceError``."""
    return loaded.read(client.rule_groups())


def look(client: Prometheus, sources: Sequence[RuleSource], vocabulary: Vocabulary, clock: Callable[[], float]) -> Live:
    """Ask a Prometheus for vLLM's names, and for each selector of the rules. Raises ``SourceError``."""
    now = clock()
    prefixes = "|".join(vocabulary.metrics.prefixes)
    names: dict[str, set[str]] = {}
    for row in client.query(f'count by (__name__, le) ({{__name__=~"(?:{prefixes}).+"}})', now):
        bound = row.labels.get("le")
        names.setdefault(row.name, set()).update([bound] if bound else [])
    asked, dead = [], []
    for text in wanted_selectors(sources, vocabulary)[:MOST_SELECTORS]:
        try:
            rows = client.query(f"count(last_over_time({text}[1h]))", now)
        except SourceError:  # a limit of the server, or a selector that it does not read: nothing is said of it
            continue
        asked.append(text)
        dead += [] if rows else [text]
    return Live({name: frozenset(bounds) for name, bounds in names.items()}, frozenset(asked), frozenset(dead))
