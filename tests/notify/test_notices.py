"""What a look at a source becomes, beside what test_dispatcher shows of it."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import unquote

from tests.api.apps import fleet, world
from tests.history.looks import RULE, START, engine, firing, look
from tests.render.builders import target

from palanca.episodes import Episode
from palanca.model import Diagnosis, Silenced
from palanca.notify.notices import notices
from palanca.outgoing import Look, Standing
from palanca.render.notice import ACKNOWLEDGE, Notice, Places

PLACES = Places("https://palanca.example.com", alertmanager="https://alerts.example.com")


def seen(diagnosis: Diagnosis, places: Places = PLACES) -> Notice:
    standing = tuple(
        Standing(7 + index, Episode(RULE, report.target, "firing", START, False, finding, finding, "critical"))
        for index, report in enumerate(diagnosis.targets)
        for finding in report.findings
    )
    (made,) = notices(Look("eu", START, standing, tuple(one.target for one in diagnosis.targets), diagnosis), places)
    return made


def test_links() -> None:
    """One silence for the rule and the model, whoever sends its alerts; and where to say who looks after it."""
    made = seen(look(0, engine(firing()), engine(firing(), where=target(1))))
    assert unquote(str(made.links.silence)).endswith(
        '/#/silences/new?filter={palanca_rule="kv-cache-saturated",job="vllm",model_name="llama-3-8b"}'
    )
    assert (7, f"https://palanca.example.com{ACKNOWLEDGE}") == (made.episode, made.links.acknowledge)
    bare = seen(look(0, engine(firing())), Places())
    assert (None, None) == (bare.links.silence, bare.links.acknowledge)


def test_where_an_episode_is_acknowledged() -> None:
    """The place in the documentation of the API that there is."""
    operation = world(fleet()).get("/openapi.json").json["paths"]["/api/v1/history/{episode_id}/acknowledge"]["post"]
    assert f"/docs#/{operation['tags'][0]}/{operation['operationId']}" == ACKNOWLEDGE


def test_silenced() -> None:
    """Where all of it is, until the first of the silences ends."""
    early, late = (replace(firing(), silenced=Silenced(("s",), START + end)) for end in (60.0, 120.0))
    both = look(0, engine(late), engine(early, where=target(1)))
    assert (START + 60.0, True) == (seen(both).silenced, seen(both).quiet)
    assert seen(look(0, engine(late), engine(firing(), where=target(1)))).silenced is None
