"""Routes to what does not exist, and routes that nothing reaches."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines import ROOT, shipped
from tests.settings.files import loaded, written
from tests.settings.test_checkup import faults, warnings

from palanca.errors import RuleFileError
from palanca.settings import check_routes, examine
from palanca.settings.load import Flag

HEAD = "sources: [{name: eu, prometheus: http://a}, {name: us, prometheus: http://b}]\n"
HOOKS = "webhooks: [{name: ops, url: http://x}, {name: pager, url: http://y}]"


def notify(*routes: str, path: str = "direct", more: str = "") -> str:
    """Settings with these routes, each on a line of its own; the first one on line 5."""
    lines = "".join(f"  - {{{one}}}\n" for one in routes)
    return f"{HEAD}notify:\n  path: {path}\n  routes:\n{lines}  {HOOKS}\n{more}"


@pytest.mark.parametrize(
    ("route", "said"),
    [
        ("rule: [kv-leek], to: [ops]", "5:13: there is no rule 'kv-leek' (did you mean kv-leak"),
        ("rule: [engine-hung, zzz], to: [ops]", "there is no rule 'zzz' (palanca rules list shows them)"),
        ("source: [euu, eu], to: [ops]", "5:15: there is no source 'euu' (did you mean eu?)"),
        ("source: [asia], to: [ops]", "5:15: there is no source 'asia' (one of eu, us)"),
        ("to: [ops, pagr]", "5:16: no receiver 'pagr' (did you mean pager?)"),
        ("to: [nobody]", "5:11: no receiver 'nobody' (one of ops, pager)"),
        ("severity: [critcal], to: [ops]", "5:17: 'critcal' is not one of"),
        ("severity: [critcal], to: [ops]", "(did you mean critical?)"),
        ("cause: [kv-capacty], to: [ops]", "(did you mean kv-capacity or"),
    ],
)
def test_names_that_do_not_exist(tmp_path: Path, route: str, said: str) -> None:
    """At their place, with the nearest that does."""
    (found,) = faults(tmp_path, notify(route))
    assert said in found
    assert found.startswith("palanca.yaml:5:")


def test_all_at_once(tmp_path: Path) -> None:
    """Also of several routes."""
    found = faults(tmp_path, notify("rule: [a, b], source: [c], to: [ops]", "rule: [d], to: []"))
    assert 4 == len(found)


def test_names_that_exist(tmp_path: Path) -> None:
    """Rules of the matrix and of an overlay, and the notice that a source cannot be read."""
    mine = (ROOT / "rules" / "matrix" / "kv-cache" / "kv-leak.yaml").read_text().replace("id: kv-leak", "id: my-leak")
    written(tmp_path, mine, "overlay/my-leak.yaml")
    route = "rule: [kv-leak, my-leak, source-unreadable], source: [us], to: [ops]"
    assert [] == [one for one in faults(tmp_path, notify(route, more="rules: overlay")) if "there is no" in one]
    assert any("no rule 'my-leak'" in one for one in faults(tmp_path, notify(route)))


def test_other_sources_for_a_trial(tmp_path: Path) -> None:
    """Flags replace the sources of the file, whose routes are right all the same; and a file may have none."""
    text = notify("source: [eu], to: [ops]")
    flag = Flag("--prometheus", ("sources",), [{"name": "prometheus", "prometheus": "http://c"}])
    check_routes(examine(written(tmp_path, text), {}, (flag,)), shipped())
    check_routes(loaded(tmp_path, text.removeprefix(HEAD)), shipped())
    with pytest.raises(RuleFileError, match="no source 'eu'"):
        check_routes(loaded(tmp_path, text.replace("name: eu", "name: x")), shipped())


@pytest.mark.parametrize(
    ("routes", "said"),
    [
        (
            ("to: [ops]", "to: [pager]"),
            "6:5: notify.routes[1] is never reached: notify.routes[0] (palanca.yaml:5) takes",
        ),
        (("to: [ops]", "match: {model_name: m}, rule: [engine-hung], to: [pager]"), "is never reached"),
        (
            ("match: {job: a}, to: []", "match: {model_name: m, job: a}, severity: [critical], to: [ops]"),
            "never reached",
        ),
        (
            ("rule: [engine-hung, kv-leak], to: [ops]", "rule: [engine-hung], cause: [hang], to: [pager]"),
            "is never reached",
        ),
        (
            ("severity: [critical], to: [pager]", "severity: [warning], to: [ops]", "to: [ops]"),
            "notify.routes[0] (palanca.yaml:5) and notify.routes[1] (palanca.yaml:6) take all that fits it (move it up",
        ),
        (("severity: [], to: [ops]", "severity: [info], to: [pager]"), "is never reached"),
        (("rule: [kv-leak], cause: [hang], to: [ops]",), "5:13: the cause of kv-leak is kv-leak: it never fits"),
    ],
)
def test_routes_that_nothing_reaches(tmp_path: Path, routes: tuple[str, ...], said: str) -> None:
    """They are told with what takes their place."""
    (found,) = warnings(tmp_path, notify(*routes))
    assert said in found


@pytest.mark.parametrize(
    "routes",
    [
        ("to: [ops], continue: true", "to: [pager]"),
        ("to: [ops]", "severity: [info], to: [pager]"),
        ("to: [ops]", "severity: [], to: [pager]"),
        ("severity: [critical], to: [ops]", "to: [pager]"),
        ("match: {job: a}, to: [ops]", "match: {job: b}, to: [pager]", "to: []"),
        ("source: [eu], to: [ops]", "to: [pager]"),
        ("source: [eu], to: [ops]", "source: [eu, us], to: [pager]"),
        ("rule: [engine-hung], cause: [hang], to: [ops]",),
        ("rule: [ttft-high], cause: [kv-capacity], to: [ops]",),
    ],
)
def test_routes_that_are_fine(tmp_path: Path, routes: tuple[str, ...]) -> None:
    """Something is left for each of them."""
    assert [] == warnings(tmp_path, notify(*routes))


def test_what_alertmanager_does_not_say(tmp_path: Path) -> None:
    """Of several sources, which one; of one it does."""
    (found,) = warnings(tmp_path, notify("source: [eu], to: [ops]", path="alertmanager"))
    assert "palanca.yaml:5:14: what Alertmanager sends does not say of which source it is" in found
    one = notify("source: [eu], to: [ops]", path="alertmanager").replace(", {name: us, prometheus: http://b}", "")
    assert [] == warnings(tmp_path, one)


def test_silences_that_nobody_reads(tmp_path: Path) -> None:
    """A link to make one would mute nothing."""
    text = notify("to: [ops]").replace("  routes:", "  links: {alertmanager: https://am}\n  routes:")
    (found,) = warnings(tmp_path, text)
    assert "palanca.yaml:4:25: palanca reads no silences" in found
    assert [] == warnings(tmp_path, text + "alertmanager: {urls: [http://am]}")
    assert [] == warnings(tmp_path, text.replace("path: direct", "path: alertmanager"))
