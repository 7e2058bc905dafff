"""``rules/names.yaml``: metric names beyond ``metrics.yaml``, what took their place, buckets, values of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from palanca.loader import build, read
from palanca.model.scalars import Releases, Spec

FILE = "names.yaml"


class OtherName(Spec):
    """A name that no measurement reads."""

    name: str
    type: Literal["counter", "gauge", "histogram", "info"]
    unit: str = "1"
    v0: Releases | None = None
    v1: Releases | None = None
    hidden_v0: Releases | None = None
    labels: tuple[str, ...] = ()
    scope: Literal["engine", "server"] = "engine"
    prefixed: bool = True


class Successor(Spec):
    """What to ask instead of a name: another name, or an expression with ``${prefix}`` and ``${matchers}``."""

    name: str | None = None
    expression: str | None = None
    note: str | None = None


class Buckets(Spec):
    """Finite bounds of histograms in some releases, ascending."""

    histograms: tuple[str, ...]
    releases: Releases
    bounds: tuple[float, ...]


class Configurable(Spec):
    """Histograms whose bounds an operator can set."""

    releases: Releases
    histograms: tuple[str, ...]


class Names(Spec):
    """``rules/names.yaml``; the file tells what each key is."""

    names: tuple[OtherName, ...]
    deprecated: Mapping[str, Releases]
    successors: Mapping[str, Successor]
    mistaken: Mapping[str, Successor]
    elsewhere: Mapping[str, tuple[str, ...]]
    buckets: tuple[Buckets, ...]
    lengths: tuple[str, ...]
    configurable: Configurable
    label_values: Mapping[str, Mapping[str, Mapping[str, Releases | None]]]
    label_names: Mapping[str, str]
    label_guesses: Mapping[str, str]
    server_labels: Mapping[str, tuple[str, ...]]


def load_names(folders: Sequence[Path]) -> Names:
    """Read the file of the last folder that has one. Raises ``RuleFileError``."""
    paths = [folder / FILE for folder in folders if (folder / FILE).exists()]
    return build(Names, read(paths[-1] if paths else folders[0] / FILE))
