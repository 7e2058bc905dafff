"""What all pages have in common: headers, escaping, errors, the state of the sources, the moment."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from markupsafe import escape
from tests.api.apps import World, fleet, odd, recorded, world
from tests.web.served import unreachable

from palanca.api.guard import SECURITY_HEADERS
from palanca.errors import BusyError, SourceError, UsageError
from palanca.history.disabled import NoHistory
from palanca.model import Diagnosis, SourceInfo, Target
from palanca.render.groups import change
from palanca.web.links import engine_link
from palanca.web.looks import MOMENTS_KEPT, Look

PAGES = ("/", "/engine?model=qwen&instance=vllm-0%3A8000", "/timeline", "/rules", "/rules/kv-leak", "/size", "/sign-in")
HTML = {"Accept": "text/html"}
NASTY = "<script>alert(1)</script>\"'&amp;{{ 7 * 7 }}"


class Outline(HTMLParser):
    """Elements and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def get(made: World, path: str, **headers: str) -> tuple[int, str]:
    answer = made.get(*path.split("?"), **{**HTML, **headers})
    return answer.status, answer.text


@pytest.mark.parametrize("path", PAGES[:-1])
def test_strict(path: str) -> None:
    """No inline script or style, no handler, nothing from elsewhere; only relative addresses."""
    answer = world(fleet()).get(*path.split("?"), **HTML)
    assert (200, "text/html; charset=utf-8") == (answer.status, answer["content-type"])
    assert "private, no-cache" == answer["cache-control"]
    for name, value in SECURITY_HEADERS.items():
        assert value == answer[name]
    assert "unsafe" not in answer["content-security-policy"]
    for tag, attributes in Outline(answer.text).found:
        assert tag != "style"
        assert tag != "script" or attributes.get("src")
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in ("href", "src", "action"):
            assert not re.match(r"/|[a-z]+:", attributes.get(name) or ""), attributes


@pytest.mark.parametrize("path", PAGES[:-1])
def test_unchanged_pages_are_not_sent_again(path: str) -> None:
    """A browser that asks every few seconds learns so."""
    made = world(fleet())
    tag = made.get(*path.split("?"), **HTML)["etag"]
    assert 304 == made.get(*path.split("?"), if_none_match=tag, **HTML).status


def test_labels_are_text() -> None:
    """Whatever they hold: shown as it is written."""
    plain = fleet(1)
    nasty = Target.of({"instance": NASTY, "model_name": NASTY, "job": "\u202eabc\n"})
    made = world(replace(plain, targets=(replace(plain.targets[0], target=nasty),)))
    for path in ("/", "/" + engine_link(nasty, None)):
        status, text = get(made, path)
        assert 200 == status
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
        assert "49" not in re.sub(r"<[^>]*>", "", text)
        assert "\u202e" not in text


@pytest.mark.parametrize("text", [NASTY, "line\nfeed", "\u202eevil"])
def test_what_is_asked_for_is_text(text: str) -> None:
    """In the field of the search, and in errors."""
    status, page = get(world(fleet()), f"/?q={quote(text)}")
    assert 200 == status
    assert "<script>alert" not in page
    status, page = get(world(fleet()), f"/?{quote(text)}=1")
    assert 422 == status
    assert "<script>alert" not in page
    assert "\u202e" not in page


@pytest.mark.parametrize("row", range(len(odd().targets)))
def test_odd_engines(row: int) -> None:
    """Each has a page."""
    status, text = get(world(odd()), "/" + engine_link(odd().targets[row].target, None))
    assert 200 == status
    assert "KV cache is full" in text


@pytest.mark.parametrize(
    ("failure", "status"),
    [(UsageError("nobody\nknows"), 400), (BusyError("ask later"), 503), (SourceError("gone"), 503)],
)
def test_moments_that_cannot_be_shown(failure: Exception, status: int) -> None:
    """Say why, as a page; programs get a problem at the REST API as before."""
    made = world(fleet())
    made.backend.failure = failure
    for path in ("/?time=-1h", "/engine?model=qwen&instance=vllm-0%3A8000&time=-1h"):
        found, text = get(made, path)
        assert status == found
        assert str(failure).split("\n", maxsplit=1)[0] in text
    assert "application/problem+json" == made.get("/diagnose", "time=-1h")["content-type"]


def test_a_moment_is_asked_for_once() -> None:
    """And kept, if it is long past and all was read."""
    made = world(fleet())
    at = fleet().time - 3600
    for path in ("/", "/", "/engine"):
        get(made, f"{path}?time={at:.0f}&model=qwen&instance=vllm-0%3A8000")
    assert [at] == made.backend.asked
    for ago in range(1, MOMENTS_KEPT + 1):
        get(made, f"/?time={at - ago:.0f}")
    get(made, f"/?time={at:.0f}")
    assert MOMENTS_KEPT + 2 == len(made.backend.asked)
    made.backend.asked.clear()
    for _ in range(2):
        get(made, f"/?time={made.backend.clock - 10:.0f}")
    assert 2 == len(made.backend.asked)


def test_the_past_says_so() -> None:
    """With the way back to now, and without refreshing."""
    _, text = get(world(fleet()), "/?time=-1h&q=llama")
    assert "THE PAST:" in text
    assert 'href="./?q=llama">Back to now' in text
    assert "data-refresh" not in text


@pytest.mark.parametrize("path", ["/", "/engine", "/timeline"])
def test_the_future_is_no_past(path: str) -> None:
    """It is refused."""
    status, text = get(world(fleet()), f"{path}?time=2039-01-01T00:00:00Z")
    assert (400, True, False) == (status, "is in the future" in text, "THE PAST" in text)


@pytest.mark.parametrize("state", ["stale", "unreachable", "partial"])
def test_sources_in_trouble(state: str) -> None:
    """On every page, each by its name, with the error line by line and no credentials."""
    made = world(fleet())
    info = SourceInfo("eu", "http://u:p@eu", state, 300.0, (), "http://u:p@eu is down\nand out")  # type: ignore[arg-type]
    made.backend.infos = [info, SourceInfo("us", "http://us")]
    for path in PAGES[:-1]:
        _, text = get(made, path)
        assert f"SOURCE {state.upper()} (eu):" in text
        assert "u:p@" not in text
        assert "is down" in text
        assert "SOURCE" not in text.replace(f"SOURCE {state.upper()} (eu):", "")


def test_no_sources() -> None:
    """Is told of as well."""
    made = world(Diagnosis(fleet().time, SourceInfo("", ""), ()))
    made.backend.infos = []
    assert "NO SOURCE" in get(made, "/")[1]


def test_the_age_of_the_data() -> None:
    """Of the oldest source."""
    made = world(fleet())
    made.backend.infos = [SourceInfo("eu", "http://eu", age_s=200.0), SourceInfo("us", "http://us", age_s=5.0)]
    text = get(made, "/")[1]
    assert 'data of 2027-01-15 08:00:00 UTC, <span id="ago" data-seconds="200">3 min 20 s</span> ago' in text


@pytest.mark.parametrize(
    ("failure", "words"),
    [(SourceError("http://u:p@eu has timed out"), "has timed out"), (BusyError("10 questions"), "10 questions"),
     (UsageError("scraped from now on only"), "scraped from now on only")],
)  # fmt: skip
def test_plots_that_cannot_be_had(failure: Exception, words: str) -> None:
    """Everything else is there, and the reason."""
    made = world(recorded())
    made.backend.failure = failure
    status, text = get(made, "/engine?model=tiny-llama")
    assert 200 == status
    assert words in text
    assert "u:p@" not in text
    assert "Change this first" in text
    assert "<figure>" not in text


def test_each_change_stands_with_its_finding() -> None:
    """The first one on top, with the finding that it is for where the verdict names another; all others at theirs."""
    plain = recorded()
    report = plain.targets[0]
    root = report.findings[0]
    changes = root.recommendations[:1]
    first = replace(root, title="Nobody knows", recommendations=())
    noted = replace(root, severity="info", title="By the way", recommendations=root.recommendations[1:2])
    assert noted.recommendations
    for findings, words in (((root,), False), ((first, root), True)):
        made = replace(report, findings=(*findings, noted))
        _, text = get(world(replace(plain, targets=(made,))), "/engine?model=tiny-llama")
        assert words == (f"For <strong>{root.title}</strong>" in text)
        top, rest = text.split("Change this first")[1].split("What binds it")
        assert escape(changes[0].why) in top
        assert 1 == rest.count("What to change for this:")
        also = rest.split("Also found")[1]
        assert str(escape(f"What to change for this: {change(noted.recommendations[0])}")) in also.replace("<code>", "")


def test_plots_are_asked_for_once_a_poll() -> None:
    """However often somebody looks; only signals of the evidence, of this engine."""
    made = world(recorded())
    for _ in range(3):
        assert "<figure>" in get(made, "/engine?model=tiny-llama")[1]
    ((target, stretch),) = made.backend.stretches
    assert recorded().targets[0].target == target
    assert {"kv_cache_usage", "preemptions_per_minute"} <= set(stretch.signals)
    assert len(stretch.signals) <= 8
    assert (recorded().time, 3600.0) == (stretch.end, stretch.span)


def test_an_engine_that_nobody_knows() -> None:
    """Is gone only where the sources could tell."""
    made = world(fleet())
    status, text = get(made, "/engine?model=none")
    assert (404, True, False) == (status, "it may be gone" in text, "SOURCE" in text)
    made = unreachable()
    for query in ("model=none", f"model=none&time={made.backend.clock - 60:.0f}"):
        status, text = get(made, f"/engine?{query}")
        assert (404, False) == (status, "gone" in text)
        assert "SOURCE UNREACHABLE:" in text
        assert "connection refused" in text
        assert "it may be there or not" in text


def test_engines_of_equal_names() -> None:
    """Are told apart on their own pages too, and lead to the timeline of the same moment."""
    plain = fleet(1)
    labels = {"job": "vllm", "instance": "a:8000", "model_name": "m"}
    targets = [Target.of({**labels, "engine": str(at)}) for at in range(2)]
    made = world(replace(plain, targets=tuple(replace(plain.targets[0], target=one) for one in targets)))
    for at, target in enumerate(targets):
        _, text = get(made, "/" + engine_link(target, None))
        assert f"<strong>m @ a:8000 engine {at}</strong>" in text
    moment = made.backend.clock - 600
    _, text = get(made, "/" + engine_link(targets[0], moment))
    (href,) = re.findall(r'href="([^"]*)">Timeline of this engine', text)
    assert "time=" in href


def test_all_findings_of_an_engine_are_shown() -> None:
    """Whichever it was found by: what is asked for chooses engines."""
    _, text = get(world(recorded()), "/engine?severity=info")
    assert "KV cache is full and requests are being preempted" in text.split("</h1>")[0]


def test_engines_to_choose_from() -> None:
    """Where several fit."""
    status, text = get(world(fleet()), "/engine?model=qwen")
    assert 200 == status
    assert "4 engines fit" in text
    assert 4 == len([1 for tag, attributes in Outline(text).found
                     if tag == "a" and (attributes.get("href") or "").startswith("./engine?")])  # fmt: skip


@pytest.mark.parametrize("path", ["/nothing", "/engine/x", "/api/v1/nothing"])
def test_other_addresses_stay_problems(path: str) -> None:
    """Only pages answer with pages."""
    answer = world(fleet()).get(path, **HTML)
    assert (404, "application/problem+json") == (answer.status, answer["content-type"])


def test_refusals_of_the_guard() -> None:
    """A query that is too long is told of by a page where one was asked for."""
    made = world(fleet())
    answer = made.get("/", "q=" + "x" * 20_000, **HTML)
    assert (414, True) == (answer.status, answer["content-type"].startswith("text/html"))
    assert "application/problem+json" == made.get("/", "q=" + "x" * 20_000)["content-type"]
    assert "GET, HEAD" == made.send("PUT", "/rules", headers={"Content-Length": "0"})["allow"]


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_counted_by_their_route(path: str) -> None:
    """In palanca's own metrics."""
    made = world(fleet())
    get(made, path)
    assert made.served[-1].path in {*(one.split("?")[0] for one in PAGES), "/rules/{rule_id}"}
    assert "other" != made.served[-1].path


def test_a_source_that_does_not_answer_holds_no_page_up() -> None:
    """After a while the page is shown without plots, and says so."""
    made = world(recorded())
    made.backend.delay = 30.0
    look = Look(made.backend, NoHistory(), patience=0.05)
    drawn, missing = asyncio.run(look.plots(recorded(), recorded().targets[0]))
    assert () == drawn
    assert "within 0.05 s" in missing
