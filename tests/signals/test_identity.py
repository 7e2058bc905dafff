"""Which labels make a target, and which server-wide series belong to it."""

from __future__ import annotations

import pytest
from tests.sample_stores import ENGINE, SERVER, catalogue

from palanca.model import Metrics, Target
from palanca.signals.identity import ServerIndex, dropped, identity, join_servers, newest_info, unprefixed

METRICS: Metrics = catalogue().metrics
FAMILIES = METRICS.families


def target(**labels: str) -> Target:
    return Target.of(labels)


@pytest.mark.parametrize(
    ("family", "more", "kept"),
    [
        ("num_requests_running", {}, {}),
        ("num_requests_running", {"pid": "77", "prometheus_replica": "0", "replica": "b", "__name__": "x"}, {}),
        (
            "num_requests_running",
            {"ReplicaId": "r1", "namespace": "ns", "pod": "p"},
            {"ReplicaId": "r1", "namespace": "ns", "pod": "p"},
        ),
        ("time_to_first_token", {"le": "0.5"}, {}),
        ("request_success", {"finished_reason": "stop"}, {}),
        ("num_requests_running", {"finished_reason": "stop"}, {"finished_reason": "stop"}),
        ("spec_accepted_tokens_per_pos", {"position": "3"}, {}),
        ("cache_config_info", {"block_size": "16", "num_gpu_blocks": "9"}, {}),
        ("http_requests", {"method": "GET", "status": "2xx", "handler": "/v1"}, {}),
        ("num_requests_running", {"empty": ""}, {}),
    ],
)
def test_identity(family: str, more: dict[str, str], kept: dict[str, str]) -> None:
    """Own labels, bucket bounds, processes and copies go; every label of the user, Ray's and ``engine`` stay."""
    assert Target.of({**ENGINE, **kept}) == identity({**ENGINE, **more}, FAMILIES[family])


def test_engine_is_never_dropped() -> None:
    """No family takes the engine label away."""
    assert not [name for name, family in FAMILIES.items() if "engine" in dropped(family)]


@pytest.mark.parametrize(
    ("server", "same"),
    [
        (SERVER, True),
        ({**SERVER, "cluster": "x"}, True),
        ({**SERVER, "engine": "0"}, True),
        ({**SERVER, "engine": "1"}, False),
        ({**SERVER, "model_name": "other"}, False),
        ({"job": "vllm", "instance": "b:8000"}, False),
        ({"job": "other", "instance": "a:8000"}, False),
        ({"job": "vllm"}, False),
        ({}, False),
    ],
)
def test_same_server(server: dict[str, str], same: bool) -> None:
    """Job and instance are equal, and no other label differs; a label on one side only does not matter."""
    assert same == bool(ServerIndex([Target.of(server)]).fitting(Target.of(ENGINE)))


def test_same_server_without_job() -> None:
    """A page that is scraped directly has neither job nor instance."""
    assert ServerIndex([target()]).fitting(target(model_name="m"))
    assert ServerIndex([target(instance="a")]).fitting(target(model_name="m", instance="a"))


def test_two_clusters_with_equal_job_and_instance() -> None:
    """A cluster label tells the servers apart."""
    servers = [Target.of({**SERVER, "cluster": name}) for name in ("east", "west")]
    index = ServerIndex(servers)

    assert servers == [index.of(Target.of({**ENGINE, "cluster": name})) for name in ("east", "west")]
    assert index.of(Target.of({**ENGINE, "cluster": "north"})) is None
    assert index.of(Target.of({**ENGINE, "instance": "b:8000", "cluster": "east"})) is None


def test_the_series_with_most_labels_is_preferred() -> None:
    """A series of the engine is nearer than one of the whole server."""
    whole, exact = Target.of(SERVER), Target.of({**SERVER, "engine": "0"})
    index = ServerIndex([whole, exact, Target.of({**SERVER, "engine": "1"})])

    assert [exact, whole] == index.fitting(Target.of(ENGINE))
    assert exact == index.of(Target.of(ENGINE))
    assert whole == index.of(Target.of({**ENGINE, "engine": "7"}))


def test_join_servers() -> None:
    """Targets get the names of their server; an ``up`` without target becomes one where that is asked for."""
    engine, lonely, other = (
        Target.of(ENGINE),
        target(job="vllm", instance="b:8000"),
        target(job="node", instance="c:9100"),
    )
    servers = {
        Target.of(SERVER): {"up"},
        lonely: {"up"},
        other: {"up"},
        target(job="x", instance="y"): {"http_requests_total"},
    }
    names = {engine: {"num_requests_running"}}

    assert {engine: {"num_requests_running", "up"}, lonely: {"up"}} == join_servers(
        names, servers, lambda one: one.get("job") == "vllm"
    )
    assert {engine: {"num_requests_running"}} == names


def test_newest_info() -> None:
    """Of several configurations of a server the newest counts, and each engine gets its own."""
    engines = [Target.of({**ENGINE, "engine": number}) for number in "01"]
    rows = [
        ({**SERVER, "block_size": size, "engine": engine}, when)
        for size, engine, when in (("16", "0", 5), ("32", "0", 9), ("8", "0", 7), ("64", "1", 1))
    ]
    found = newest_info(engines, rows, METRICS)

    assert ["32", "64"] == [found[engine]["block_size"] for engine in engines]
    assert {} == newest_info([target(job="x")], rows, METRICS)


def test_the_configuration_of_another_server_at_the_same_address() -> None:
    """However new it is: it is nearer that counts, or an engine would get both in turns."""
    engine = Target.of({**ENGINE, "namespace": "prod"})
    own, other = {**SERVER, "block_size": "16", "namespace": "prod"}, {**SERVER, "block_size": "32"}

    for when in (1, 5, 9):
        assert "16" == newest_info([engine], [(own, 5), (other, when)], METRICS)[engine]["block_size"]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("vllm:num_requests_running", ("vllm:", "num_requests_running")),
        ("ray_vllm_num_requests_running", ("ray_vllm_", "num_requests_running")),
        ("kserve_vllm:x", ("kserve_vllm:", "x")),
        ("vllm_x", ("vllm_", "x")),
        ("up", None),
        ("xvllm:x", None),
        ("", None),
    ],
)
def test_unprefixed(name: str, parts: tuple[str, str] | None) -> None:
    """A live prefix is split off; other names have none."""
    assert parts == unprefixed(name, METRICS)
