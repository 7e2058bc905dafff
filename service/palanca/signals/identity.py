"""Which labels make a target, and how server-wide series find theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palanca.model import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from palanca.model import Family, Metrics

BUCKET, COUNT = "_bucket", "_count"
"""A histogram is there where its count is: buckets are many, and some relabelling drops them."""
PROCESS_LABEL = "pid"
COPY_LABELS = ("prometheus_replica", "replica")
"""Labels of redundant Prometheus servers: their copies are one target, and are never summed."""
SERVER_LABELS = ("job", "instance")
SERVER_JOIN = ("cluster", "namespace", *SERVER_LABELS)
"""Labels that tell servers apart; those that a server lacks match as empty ones."""


def dropped(family: Family) -> frozenset[str]:
    """Labels that do not belong to the identity of a target in series of this family."""
    own = set(family.info_labels) - {"engine"} if family.type == "info" else set()
    return frozenset({"le", "__name__", PROCESS_LABEL, *COPY_LABELS, *family.labels, *own})


def identity(labels: Mapping[str, str], family: Family) -> Target:
    """Return the target that a series of the family belongs to."""
    return _without(dropped(family), labels)


def _without(gone: frozenset[str], labels: Mapping[str, str]) -> Target:
    return Target.of({name: value for name, value in labels.items() if name not in gone})


class Identities:
    """Targets of label sets, each made once: series of many answers are of the same engines."""

    def __init__(self) -> None:
        self._found: dict[frozenset[str], dict[tuple[str, ...], Target]] = {}
        self._targets: dict[Target, Target] = {}
        self._together: dict[tuple[Target, ...], tuple[Target, ...]] = {}

    def of(self, labels: Mapping[str, str], gone: frozenset[str]) -> Target:
        """Return the target that has the labels apart from those in ``gone``."""
        return self.of_all([labels], gone)[0]

    def together(self, targets: Iterable[Target]) -> tuple[Target, ...]:
        """Return the same tuple for the same targets in the same order."""
        made = tuple(targets)
        return self._together.setdefault(made, made)

    def of_all(self, sets: Iterable[Mapping[str, str]], gone: frozenset[str]) -> list[Target]:
        """Return the target of each label set, as ``of``."""
        plain, without = self._found.setdefault(frozenset(), {}), self._found.setdefault(gone, {})
        targets = []
        for labels in sets:
            found = plain if gone.isdisjoint(labels) else without
            key = (*labels, *labels.values())
            target = found.get(key)
            if target is None:
                made = _without(gone, labels)
                target = found[key] = self._targets.setdefault(made, made)
            targets.append(target)
        return targets


def _values(target: Target, names: Iterable[str]) -> tuple[str, ...]:
    return tuple([target.get(name) for name in names])


def _place(target: Target) -> tuple[str, ...]:
    return _values(target, SERVER_LABELS)


def server_of(target: Target) -> tuple[str, ...]:
    """Return what is equal for all engines of one server, and for no other server."""
    return _values(target, SERVER_JOIN)


def _beyond_place(server: Target) -> tuple[tuple[str, str], ...]:
    return tuple([pair for pair in server.labels if pair[0] not in SERVER_LABELS])


def _agrees(target: Target, labels: Iterable[tuple[str, str]]) -> bool:
    """Whether a target has no other value of any of the labels."""
    return all(target.get(label, value) == value for label, value in labels)


class ServerIndex:
    """Finds the server-wide series that are about a target: equal job and instance, and no label that differs."""

    def __init__(self, servers: Iterable[Target]) -> None:
        self._by_place: dict[tuple[str, ...], list[tuple[Target, tuple[tuple[str, str], ...]]]] = {}
        for server in sorted(servers, key=lambda server: (len(server.labels), server.labels), reverse=True):
            self._by_place.setdefault(_place(server), []).append((server, _beyond_place(server)))

    def fitting(self, target: Target) -> list[Target]:
        """Those that are about a target, the one with the most labels in common first."""
        near = self._by_place.get(_place(target), ())
        return [server for server, labels in near if _agrees(target, labels)]

    def of(self, target: Target) -> Target | None:
        """The best match for a target: the one with the most labels in common; None without any."""
        return next(iter(self.fitting(target)), None)


def join_servers(
    names: Mapping[Target, set[str]], servers: Mapping[Target, set[str]], alone: Callable[[Target], bool]
) -> dict[Target, set[str]]:
    """Give targets the names of their server-wide series.

    An ``up`` series beside no target becomes a target of its own where ``alone`` says so: a server that is up, or
    down, without any vLLM series.
    """
    targets = {target: set(own) for target, own in names.items()}
    index, joined = ServerIndex(servers), set()
    for target, own in targets.items():
        fitting = index.fitting(target)
        own.update(*map(servers.__getitem__, fitting))
        joined.update(fitting)
    for server, known in servers.items():
        if server not in joined and "up" in known and alone(server):
            targets[server] = set(known)
    return targets


def newest_info(
    targets: Iterable[Target], rows: Iterable[tuple[Mapping[str, str], int]], metrics: Metrics
) -> dict[Target, dict[str, str]]:
    """Find the labels of ``cache_config_info`` for each target; ``rows`` are labels and newest times.

    Of several series of one server, as after a change of its configuration, the one with the newest sample counts.
    """
    family = metrics.families.get("cache_config_info")
    if family is None:
        return {}
    newest: dict[Target, tuple[int, list[tuple[str, str]]]] = {}
    gone = dropped(family)
    for labels, at in rows:
        server = _without(gone, labels)
        newest[server] = max(newest.get(server, (0, [])), (at, sorted(labels.items())))
    index = ServerIndex(newest)
    found = {target: index.of(target) for target in targets}
    return {target: dict(newest[server][1]) for target, server in found.items() if server is not None}


def unprefixed(name: str, metrics: Metrics) -> tuple[str, str] | None:
    """Split ``ray_vllm_num_requests_running`` into live prefix and plain name; None without a known prefix."""
    for prefix in metrics.prefixes:
        if name.startswith(prefix):
            return prefix, name.removeprefix(prefix)
    return None
