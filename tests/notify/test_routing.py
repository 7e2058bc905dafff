"""Who is told, and when."""

from __future__ import annotations

from datetime import UTC, datetime, time, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from palanca.notify.routing import Quiet, Route, Routing, chosen
from palanca.outgoing import Addressee
from palanca.render.notice import Notice

NOW = 1_800_000_000.0
MADRID = ZoneInfo("Europe/Madrid")


def notice(**changes: Any) -> Notice:  # noqa: ANN401  fields of a notice
    plain: dict[str, Any] = {"key": "k", "state": "firing", "severity": "critical", "title": "t", "source": "eu"}
    return Notice(**{**plain, "labels": {"model_name": "llama"}, "cause": "kv-capacity", "rule": "r", **changes})


def who(routing: Routing, told: Notice) -> list[str]:
    return [one.receiver for one in routing.addressees(told, NOW)]


def moment(text: str, zone: tzinfo = UTC) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


def test_without_routes_everybody_is_told() -> None:
    """Of what is critical or a warning."""
    routing = Routing(("a", "b"))
    assert ["a", "b"] == who(routing, notice()) == who(routing, notice(severity="warning"))
    assert [] == who(routing, notice(severity="info"))


@pytest.mark.parametrize(
    ("route", "fits"),
    [
        ({"match": {"model_name": "llama"}}, True),
        ({"match": {"model_name": "other"}}, False),
        ({"match": {"namespace": ""}}, True),
        ({"sources": frozenset({"us"})}, False),
        ({"severities": frozenset({"warning"})}, False),
        ({"causes": frozenset({"kv-capacity", "hang"})}, True),
        ({"causes": frozenset({"hang"})}, False),
        ({"rules": frozenset({"r"})}, True),
        ({"rules": frozenset({"q"})}, False),
    ],
)
def test_what_a_route_asks_for(route: dict[str, Any], fits: bool) -> None:
    """Labels, source, severity, cause and rule, all of them."""
    assert ["a"] * fits == who(Routing(("z",), (Route(("a",), **route),)), notice())


def test_the_first_route_that_fits_decides() -> None:
    """Unless it lets the others be asked too; each receiver is told once, by its first route."""
    first, second = Route(("a",), go_on=True, digest=600.0), Route(("a", "b"))
    assert [Addressee("a", NOW, digest=True), Addressee("b", NOW)] == list(
        Routing((), (first, second, Route(("c",)))).addressees(notice(), NOW)
    )
    assert [] == who(Routing((), (Route(()), second)), notice())


def test_receivers_that_are_chosen() -> None:
    """At the times that their routes give, others at once."""
    routing = Routing((), (Route(("a",), digest=7 * 86400.0),))
    late, soon = chosen(routing, ("a", "b"), notice(), NOW)
    assert late.due > NOW == soon.due


def test_a_digest_is_due_at_multiples() -> None:
    """Of its time since 1970."""
    assert NOW + 100 == Route((), digest=100.0).due(notice(), NOW + 1)
    assert NOW == Route((), digest=100.0).due(notice(), NOW)


@pytest.mark.parametrize(
    ("now", "until"),
    [
        ("2026-03-02 21:59:59", None),
        ("2026-03-02 22:00", "2026-03-03 07:00"),
        ("2026-03-03 02:00", "2026-03-03 07:00"),
        ("2026-03-03 07:00", None),
        ("2026-03-28 23:00", "2026-03-29 07:00"),  # summer time begins
        ("2026-10-25 01:00", "2026-10-25 07:00"),  # it ends
    ],
)
def test_quiet_over_midnight(now: str, until: str | None) -> None:
    """On the clock of its zone, also where that is put forward or back."""
    quiet = Quiet(time(22), time(7), MADRID)
    assert moment(until or now, MADRID) == quiet.until(moment(now, MADRID))


def test_quiet_on_some_days() -> None:
    """They are those on which it begins; a weekend is one stretch."""
    weekend = Quiet(time(0), time(0), UTC, frozenset({5, 6}))
    assert moment("2026-03-09 00:00") == weekend.until(moment("2026-03-07 12:00"))
    assert moment("2026-03-06 12:00") == weekend.until(moment("2026-03-06 12:00"))


def test_always_quiet_is_not_for_ever() -> None:
    """Somebody meant a day: it is looked at again after some of them."""
    assert Quiet(time(0), time(0)).until(NOW) > NOW


def test_who_passes() -> None:
    """Critical ones by default; a digest that falls into quiet hours waits for their end."""
    night = Quiet(time(22), time(7))
    at = moment("2026-03-02 23:01")
    assert at == Route((), quiet=night).due(notice(), at)
    assert moment("2026-03-03 07:00") == Route((), quiet=night).due(notice(severity="warning"), at)
    assert moment("2026-03-03 07:00") == Route((), quiet=night, digest=600.0).due(notice(severity="warning"), at)
    nobody = Quiet(time(22), time(7), passes=frozenset())
    assert at < Route((), quiet=nobody).due(notice(), at)
