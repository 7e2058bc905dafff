"""Which vLLM releases and engines a target can be running, from what it exposes.

Candidates are all pairs of release and engine; everything seen strikes out those that cannot have it. Names that are
absent prove nothing (relabelling may drop them), but labels of ``cache_config_info`` that are absent do: they come
all together. Where that leaves nothing (a simulator, labels dropped), names and present labels alone decide.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from palanca.model import VllmVersion
from palanca.releases import Release, ReleaseRange

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from palanca.model import Family, MetricName, Metrics

Candidate = tuple[str, str]  # release, engine
ENGINES = ("v0", "v1")
ENGINE_LABEL_SINCE = ReleaseRange(Release("0.8.3"))
"""V1 series have the label ``engine`` from 0.8.3 on (vllm/v1/metrics/loggers.py of that release)."""


class VersionTable:
    """Which pairs of release and engine can show each name and label."""

    def __init__(self, metrics: Metrics) -> None:
        running = metrics.families["num_requests_running"].names[0]
        self._releases = metrics.releases
        self._everything: set[Candidate] = {
            (release, engine) for release in metrics.releases for engine in ENGINES if _has(running, release, engine)
        }
        self._names: dict[str, set[Candidate]] = {}
        for family in metrics.families.values():
            for name in family.names if family.prefixed else ():
                having = {one for one in self._everything if _has(name, *one)}
                self._names.setdefault(name.name, set()).update(having)
        self._info = {
            label: {one for one in self._everything if any(Release(one[0]) in span for span in releases)}
            for label, releases in metrics.families["cache_config_info"].info_labels.items()
        }
        self._inferred: dict[tuple[frozenset[str], frozenset[str], bool], VllmVersion | None] = {}
        self._with_engine_label = {
            one for one in self._everything if one[1] == "v1" and Release(one[0]) in ENGINE_LABEL_SINCE
        }

    def infer(
        self, names: Collection[str], info: Mapping[str, str] | None, target_labels: Collection[str]
    ) -> VllmVersion | None:
        """Return the span of releases that can show these names and labels; None when nothing is known.

        When nothing fits (a newer release, a patched build), the newest known release is given.
        """
        seen = frozenset(names), frozenset(info or ()), "engine" in target_labels
        if seen not in self._inferred:
            self._inferred[seen] = self._infer(*seen)
        return self._inferred[seen]

    def _infer(self, names: frozenset[str], shown: frozenset[str], with_engine: bool) -> VllmVersion | None:  # noqa: FBT001
        known = [name for name in names if name in self._names]
        if not known and not shown:
            return None
        candidates = set(self._everything)
        for name in known:
            candidates &= self._names[name]
        if with_engine:
            candidates &= self._with_engine_label
        for label in shown & self._info.keys():
            candidates &= self._info[label]
        if shown:
            complete = candidates.difference(*(having for label, having in self._info.items() if label not in shown))
            candidates = complete or candidates
        if not candidates:
            return VllmVersion(self._releases[-1], self._releases[-1], ("v1",), "inferred")
        releases = [release for release in self._releases if any(release == one[0] for one in candidates)]
        return VllmVersion(releases[0], releases[-1], tuple(sorted({one[1] for one in candidates})), "inferred")

    def reported(
        self, text: str, inferred: VllmVersion | None, target_labels: Collection[str] = ("engine",)
    ) -> VllmVersion | None:
        """Return the release that a server reports; what was inferred where the catalogue does not know that one.

        Builds of the development branch name the release that comes next, or none at all. Who reports a release was
        asked directly, so that no relabelling can have dropped the label ``engine``: without it the engine is V0.
        """
        try:
            release = Release(plain_release(text))
            known = Release(self._releases[0]) <= release <= Release(self._releases[-1])
        except ValueError:
            return inferred
        if not known:
            return inferred
        nearest = max((one for one in self._releases if Release(one) <= release), key=lambda one: Release(one).key)
        engines = {engine for one, engine in self._everything if one == nearest}
        if "engine" not in target_labels and release in ENGINE_LABEL_SINCE:
            engines &= {"v0"}
        both = engines & set(inferred.engines) if inferred is not None else engines
        return VllmVersion(release.text, release.text, tuple(sorted(both or engines or ENGINES[1:])), "reported")


@lru_cache(maxsize=8)
def version_table(metrics: Metrics) -> VersionTable:
    """Return the table of the metrics, made once."""
    return VersionTable(metrics)


def plain_release(text: str) -> str:
    """Leave out what a build adds: ``0.26.0+cpu`` -> ``0.26.0``. Raises ``ValueError`` for what is no release."""
    key = Release(text).key
    numbers = list(key[:4] if key[3] else key[:3])
    return ".".join(str(number) for number in numbers) + (f".post{key[4]}" if key[4] else "")


def _has(name: MetricName, release: str, engine: str) -> bool:
    one = Release(release)
    ranges = (name.v0, name.hidden_v0) if engine == "v0" else (name.v1, name.hidden_v1)
    return any(one in span for span in ranges if span is not None)


def counts(family: Family, where: Mapping[str, str], releases: ReleaseRange | None) -> bool:
    """Whether any of these releases has the label values that are asked for; None: any release that there is."""
    spans = [family.label_values.get(label, {}).get(value) for label, value in where.items()]
    return releases is None or all(any(one.overlaps(releases) for one in several) for several in spans if several)


def releases_of(version: VllmVersion | None) -> ReleaseRange | None:
    """The releases that a target can be running; None where nothing is known of that."""
    return None if version is None else ReleaseRange(Release(version.first), Release(version.last))


def available(family_names: Collection[MetricName], version: VllmVersion | None) -> bool:
    """Whether any release and engine that the target can be running has the family."""
    span = releases_of(version)
    if version is None or span is None:
        return True
    for name in family_names:
        for engine in version.engines:
            ranges = (name.v0, name.hidden_v0) if engine == "v0" else (name.v1, name.hidden_v1)
            for one in ranges:
                if (
                    one is not None
                    and one.first <= (span.last or one.first)
                    and (one.last is None or span.first <= one.last)
                ):
                    return True
    return False
