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
    gone = dropped(family)
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
                made = Target.of({name: value for name, value in labels.items() if name not in gone})
                target = found[key] = self._targets.setdefault(made, made)
            targets.append(target)
        return targets


def same_server(server: Target, target: Target) -> bool:
    """Whether a server-wide series is about the target: equal job and instance, and no label that differs."""
    if any(server.get(label) != target.get(label) for label in SERVER_LABELS):
        return False
    return all(target.get(label, value) == value for label, value in server.labels)


def _values(target: Target, names: Iterable[str]) -> tuple[str, ...]:
    return tuple([target.get(name) for name in names])


def _place(target: Target) -> tuple[str, ...]:
    return _values(target, SERVER_LABELS)


def server_of(target: Target) -> tuple[str, ...]:
    """Return what is equal for all engines of one server, and for no other server."""
    return _values(target, SERVER_JOIN)


class ServerIndex:
    """Finds the server-wide series of each target without comparing all pairs."""

    def __init__(self, servers: Iterable[Target]) -> None:
        self._by_place: dict[tuple[str, ...], list[Target]] = {}
        for server in servers:
            self._by_place.setdefault(_place(server), []).append(server)

    def fitting(self, target: Target) -> list[Target]:
        """Those that are about a target, the one with the most labels in common first."""
        near = self._by_place.get(_place(target), [])
        fitting = [server for server in near if same_server(server, target)]
        return sorted(fitting, key=lambda server: (len(server.labels), server.labels), reverse=True)


def join_servers(
    names: Mapping[Target, set[str]], servers: Mapping[Target, set[str]], alone: Callable[[Target], bool]
) -> dict[Target, set[str]]:
    """Give targets the names of their server-wide series.

    An ``up`` series beside no target becomes a target of its own where ``alone`` says so: a server that is up, or
    down, without any vLLM series.
    """
    targets = {target: set(own) for target, own in names.items()}
    near: dict[tuple[str, ...], list[Target]] = {}
    for target in names:
        near.setdefault(_place(target), []).append(target)
    for server, known in servers.items():
        fitting = [target for target in near.get(_place(server), ()) if same_server(server, target)]
        for target in fitting:
            targets[target] |= known
        if not fitting and "up" in known and alone(server):
            targets[server] = set(known)
    return targets


def newest_info(
    targets: Iterable[Target], rows: Iterable[tuple[Mapping[str, str], int]], metrics: Metrics
) -> dict[Target, dict[str, str]]:
    """Find the labels of ``cache_config_info`` for each target; ``rows`` are labels and newest times.

    Of several series about one target, as after a change of its configuration, the one with the newest sample counts;
    of equally new ones the one with the most labels in common.
    """
    family = metrics.families.get("cache_config_info")
    if family is None:
        return {}
    newest: dict[Target, tuple[int, list[tuple[str, str]]]] = {}
    for labels, at in rows:
        server = identity(labels, family)
        newest[server] = max(newest.get(server, (0, [])), (at, sorted(labels.items())))
    index = ServerIndex(newest)
    found = {target: [newest[server] for server in index.fitting(target)] for target in targets}
    return {target: dict(max(infos, key=lambda info: info[0])[1]) for target, infos in found.items() if infos}


def unprefixed(name: str, metrics: Metrics) -> tuple[str, str] | None:
    """Split ``ray_vllm_num_requests_running`` into live prefix and plain name; None without a known prefix."""
    for prefix in metrics.prefixes:
        if name.startswith(prefix):
            return prefix, name.removeprefix(prefix)
    return None
