"""Every page in every state, as a browser shows it: nothing asked elsewhere, no error, and usable by everybody."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.api.apps import World, fleet, kept, recorded, world
from tests.engines import END
from tests.web.served import PHONE, STATES, WIDE, Browser, Seen, faults, first_engine, http

from palanca.api.access import Token, Tokens
from palanca.api.guard import Rules
from palanca.model import SourceInfo
from palanca.quantities import time_span
from palanca.settings.targets import Knowledge, TargetFacts

ARGUMENTS = "--block-size 32 --num-gpu-blocks-override 256 --max-num-seqs 64"
LINE = "vllm serve tiny-llama --block-size 32 --max-num-seqs 64"
WITH_ENGINE = ("ok", "warning", "critical", "unknown", "stale", "hostile")
SECRET = "a-token-that-is-long-enough"


Served = Callable[[str], tuple[str, World]]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """Each state at its own address, from when it is first asked for."""
    found: dict[str, tuple[str, World]] = {}
    with ExitStack() as stack:

        def of(state: str) -> tuple[str, World]:
            if state not in found:
                made = STATES[state]()
                found[state] = stack.enter_context(http(made)), made
            return found[state]

        yield of


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A recorded incident with its history, and the arguments of the engine."""
    made = world(recorded(), history=kept(tmp_path_factory.mktemp("web"), recorded()))
    made.backend.knowledge = Knowledge((TargetFacts({}, {}, ARGUMENTS),))
    with http(made) as url:
        yield url


@pytest.fixture(scope="module")
def closed() -> Iterator[str]:
    """Tokens are asked for."""
    with http(world(fleet(), rules=Rules(Tokens([Token("ana", "write", SECRET)])))) as url:
        yield url


def sound(page: Page, seen: Seen, *, whole: bool = True) -> None:
    """A page that is as pages have to be; not ``whole``: a large one, that is searched for faults elsewhere."""
    assert [] == seen.says
    assert [] == seen.elsewhere
    assert 1 == page.locator("h1").count()
    assert not whole or [] == faults(page)
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= page.viewport_size["width"], width  # type: ignore[index]


def test_faults_are_found(browser: Browser) -> None:
    """What has no name, or cannot be read, is."""

    def eye(page: Page, _: Seen) -> None:
        page.set_content('<h1>t</h1><button></button><p style="color: #eee; background: #fff">pale</p>')
        assert {"button-name", "color-contrast"} <= {one.partition(":")[0] for one in faults(page)}

    browser.look("http://nowhere.invalid", eye)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(("width", "scheme"), [(WIDE, "light"), (PHONE, "dark")])
def test_fleet_in_every_state(served: Served, browser: Browser, state: str, width: int, scheme: str) -> None:
    """Wide and light, narrow and dark; the table scrolls in its box, and the page never to the side."""
    url, made = served(state)

    def eye(page: Page, seen: Seen) -> None:
        page.goto("/")
        sound(page, seen, whole=state != "thousand" or width == WIDE)
        assert len(made.backend.snapshot.diagnosis.targets[:100]) == page.locator("table.engines tbody tr").count()

    browser.look(url, eye, viewport={"width": width, "height": 900}, color_scheme=scheme)


@pytest.mark.parametrize("state", WITH_ENGINE)
@pytest.mark.parametrize(("width", "scheme"), [(WIDE, "dark"), (PHONE, "light")])
def test_engine_in_every_state(served: Served, browser: Browser, state: str, width: int, scheme: str) -> None:
    """The other way round."""
    url, made = served(state)

    def eye(page: Page, seen: Seen) -> None:
        page.goto(first_engine(made))
        sound(page, seen)
        assert 6 == page.locator(".bars li").count()

    browser.look(url, eye, viewport={"width": width, "height": 900}, color_scheme=scheme)


@pytest.mark.parametrize(
    "path",
    ["/timeline", "/timeline?span=7d", "/rules", "/rules/kv-cache-saturated", "/size",
     "/size?reference=rtx-4090-7b&users=32", "/?time=-30m", "/?q=nothing+like+it", "/engine?model=tiny-llama"],
)  # fmt: skip
@pytest.mark.parametrize(("width", "scheme"), [(WIDE, "light"), (PHONE, "dark")])
def test_other_pages(incident: str, browser: Browser, path: str, width: int, scheme: str) -> None:
    """With an episode that is open."""

    def eye(page: Page, seen: Seen) -> None:
        page.goto(path)
        sound(page, seen)

    browser.look(incident, eye, viewport={"width": width, "height": 900}, color_scheme=scheme)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [("/?limit=0", 422, "limit"), ("/?colour=red", 422, "there is no such parameter"),
     ("/?time=yesterday", 422, "2026-11-29T20:09:11Z"), ("/engine?match=a%3Db", 404, "no engine fits"),
     ("/rules/kv-cache-saturate", 404, "did you mean kv-cache-saturated")],
)  # fmt: skip
def test_errors_are_pages(incident: str, browser: Browser, path: str, status: int, words: str) -> None:
    """They say what is wrong and how to mend it."""

    def eye(page: Page, seen: Seen) -> None:
        answer = page.goto(path)
        assert answer is not None
        assert status == answer.status
        assert words in page.inner_text("main")
        assert [] == faults(page)
        assert not [one for one in seen.says if "Failed to load resource" not in one]
        page.click("text=To the fleet")
        assert 1 == page.locator("table.engines tbody tr").count()

    browser.look(incident, eye)


def test_without_javascript(incident: str, browser: Browser) -> None:
    """Everything that pages do is a link or a form."""

    def eye(page: Page, _: Seen) -> None:
        page.goto("/")
        page.fill("input[name=q]", "tiny kv-capacity")
        page.click("text=Show >> visible=true")
        assert "q=tiny+kv-capacity" in page.url
        page.click("table.engines a")
        assert "KV cache is full" in page.inner_text("h1")
        assert LINE in page.inner_text("main")
        assert page.locator("text=Copy >> visible=true").count() == 0
        page.fill("input[name=time]", "-10m")
        page.click("text=Look")
        assert "THE PAST" in page.inner_text("main")
        page.click("text=Back to now")
        assert "THE PAST" not in page.inner_text("main")

    browser.look(incident, eye, java_script_enabled=False)


def test_keyboard_alone(incident: str, browser: Browser) -> None:
    """The skip link comes first, the engine is reached and opened, and what has the focus is seen."""

    def eye(page: Page, _: Seen) -> None:
        page.goto("/")
        page.keyboard.press("Tab")
        assert "Skip to the content" == page.evaluate("document.activeElement.textContent")
        page.keyboard.press("Enter")
        assert "main" == page.evaluate("document.activeElement.id")
        for _step in range(30):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.closest('table.engines th') !== null"):
                break
        assert "none" != page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("/engine"))

    browser.look(incident, eye)


def test_copy(incident: str, browser: Browser) -> None:
    """The whole command line, as it is to be typed."""

    def eye(page: Page, seen: Seen) -> str:
        page.goto("/engine?model=tiny-llama")
        page.click("text=Copy")
        page.wait_for_selector("text=Copied")
        assert [] == seen.says
        return str(page.evaluate("navigator.clipboard.readText()"))

    assert browser.look(incident, eye, permissions=["clipboard-read", "clipboard-write"]) == LINE


@pytest.mark.parametrize("path", ["/", "/engine?model=tiny-llama", "/timeline", "/rules", "/size", "/sign-in"])
def test_text_twice_as_large_on_a_phone(incident: str, closed: str, browser: Browser, path: str) -> None:
    """As a browser is told to show it: lines get more, and the page is no wider."""

    def eye(page: Page, _: Seen) -> None:
        page.goto(path)
        page.evaluate("document.documentElement.style.fontSize = '200%'")
        assert PHONE == page.evaluate("document.documentElement.scrollWidth")

    browser.look(closed if path == "/sign-in" else incident, eye, viewport={"width": PHONE, "height": 800})


def test_what_a_phone_shows_is_named_and_can_be_read(incident: str, browser: Browser) -> None:
    """The release of an engine says what it is; the times under a bar are as large as other small text."""

    def eye(page: Page, _: Seen) -> None:
        page.goto("/")
        before = "getComputedStyle(document.querySelector('table.engines td[data-of=vLLM]'), '::before').content"
        assert "vLLM" in page.evaluate(before)
        page.goto("/timeline")
        assert 5 == page.locator(".lane .scale span").count()
        assert "12.8px" == page.evaluate("getComputedStyle(document.querySelector('.scale span')).fontSize")
        assert page.evaluate("document.querySelector('.lane rect').getBoundingClientRect().height") >= 14

    browser.look(incident, eye, viewport={"width": PHONE, "height": 800})


Awake = Callable[[Page, World], None]


@pytest.fixture
def awake(browser: Browser) -> Callable[[Awake], None]:
    """The fleet of three engines, on a page whose clock goes only when it is told to."""

    def look(eye: Awake) -> None:
        made = world(fleet(3))
        with http(made) as url:

            def see(page: Page, seen: Seen) -> None:
                page.clock.install(time=END)
                page.clock.pause_at(END + 1)
                page.goto("/")
                page.wait_for_function("document.readyState === 'complete'")
                eye(page, made)
                assert [] == [one for one in seen.says if not re.search("ERR_|status of", one)]

            browser.look(url, see)

    return look


def engines_in(page: Page, number: int) -> None:
    """Wait until the table has as many engines."""
    expect(page.locator("table.engines tbody tr")).to_have_count(number)


def test_it_refreshes_itself(awake: Callable[[Awake], None]) -> None:
    """What comes is shown, what was opened stays open, and the page says nothing about it."""

    def eye(page: Page, made: World) -> None:
        engines_in(page, 3)
        page.click("summary")
        made.backend.snapshot = world(fleet(5)).backend.snapshot
        page.clock.run_for(16_000)
        engines_in(page, 5)
        assert page.locator("details[open]").count() == 1
        assert page.inner_text("#news") == ""

    awake(eye)


def test_focus_stays_with_its_engine(awake: Callable[[Awake], None]) -> None:
    """Wherever that stands now; where it is gone, nothing else gets it."""

    def eye(page: Page, made: World) -> None:
        link = page.locator("table.engines a").last
        href = str(link.get_attribute("href"))
        link.focus()
        whole = made.backend.snapshot.diagnosis
        made.backend.snapshot = world(fleet(9)).backend.snapshot
        page.clock.run_for(16_000)
        engines_in(page, 9)
        assert href == page.evaluate("document.activeElement.getAttribute('href')")
        assert "Engines" in page.evaluate("document.activeElement.closest('section').innerText")
        left = [one for one in whole.targets if dict(one.target.labels)["instance"].partition(":")[0] not in href]
        assert 2 == len(left)
        made.backend.snapshot = world(replace(whole, targets=tuple(left))).backend.snapshot
        page.clock.run_for(16_000)
        engines_in(page, 2)
        assert "main" == page.evaluate("document.activeElement.id")

    awake(eye)


def test_alerts_are_told_once(awake: Callable[[Awake], None]) -> None:
    """A banner that stays is the same element; one whose age alone has changed is no alert again."""

    def eye(page: Page, made: World) -> None:
        source = SourceInfo("prometheus", "http://p:9090", "stale", 250.0, (), "timed out")
        made.backend.infos = [source]
        page.clock.run_for(16_000)
        banner = page.locator(".banner")
        expect(banner).to_have_attribute("role", "alert")
        banner.evaluate("(one) => { one.mine = true; }")
        made.backend.snapshot = world(fleet(4)).backend.snapshot
        page.clock.run_for(16_000)
        engines_in(page, 4)
        assert banner.evaluate("(one) => one.mine")
        assert "alert" == banner.get_attribute("role")
        made.backend.infos = [replace(source, age_s=265.0)]
        page.clock.run_for(16_000)
        expect(banner).to_contain_text("4 min 25 s")
        assert banner.get_attribute("role") is None

    awake(eye)


def test_forms_and_selections_are_left_alone(awake: Callable[[Awake], None]) -> None:
    """The page says since when, and goes on when they are done."""

    def eye(page: Page, made: World) -> None:
        made.backend.snapshot = world(fleet(5)).backend.snapshot
        news = page.locator("#news")
        page.fill("input[name=q]", "half a wo")
        page.clock.run_for(25_000)
        assert "" == news.inner_text()
        page.clock.run_for(10_000)
        words = "Not updated since 08:00:01 UTC while a form is in use: reload."
        expect(news).to_have_text(words)
        page.fill("input[name=q]", "")
        page.locator("input[name=q]").blur()
        page.evaluate("getSelection().selectAllChildren(document.querySelector('h1'))")
        page.clock.run_for(2_000)
        expect(news).to_contain_text("while text is selected")
        assert 3 == page.locator("table.engines tbody tr").count()
        page.evaluate("getSelection().removeAllRanges()")
        page.clock.run_for(16_000)
        engines_in(page, 5)
        expect(news).to_be_empty()

    awake(eye)


def test_a_server_that_hangs(awake: Callable[[Awake], None]) -> None:
    """It is given up after 10 s, and the age goes on all the while."""

    def eye(page: Page, _: World) -> None:
        first = page.inner_text("#ago")
        page.route("**/*", lambda _route: None)
        page.clock.run_for(15_500)
        assert "" == page.inner_text("#news")
        assert first != page.inner_text("#ago")
        page.clock.run_for(10_000)
        expect(page.locator("#news")).to_have_text("Not updated since 08:00:01 UTC: palanca does not answer.")
        page.clock.resume()
        assert [] == faults(page)

    awake(eye)


@pytest.mark.parametrize(
    ("status", "words"),
    [(404, "this page is gone: 404"), (422, "this page is gone: 422"), (429, "palanca answers 429"),
     (503, "palanca answers 503"), (200, "what answers is not palanca")],
)  # fmt: skip
def test_what_else_may_come(awake: Callable[[Awake], None], status: int, words: str) -> None:
    """It is told as what it is, until a page comes again."""

    def eye(page: Page, _: World) -> None:
        page.route("**/*", lambda route: route.fulfill(status=status, body="<p>other"))
        page.clock.run_for(16_000)
        expect(page.locator("#news")).to_have_text(f"Not updated since 08:00:01 UTC: {words}.")
        page.unroute_all()
        page.clock.run_for(15_000)
        expect(page.locator("#news")).to_be_empty()

    awake(eye)


def test_who_is_signed_out_meanwhile_is_asked_again(closed: str, browser: Browser) -> None:
    """The page does not stay as if nothing had happened."""

    def eye(page: Page, _: Seen) -> None:
        page.clock.install()
        page.goto("/sign-in")
        page.fill("input[name=token]", SECRET)
        page.keyboard.press("Enter")
        page.wait_for_selector("table.engines")
        page.context.clear_cookies()
        page.clock.run_for(16_000)
        page.wait_for_url(re.compile("/sign-in"))

    browser.look(closed, eye)


@pytest.mark.parametrize("seconds", [0, 7, 59.6, 60, 200, 3600, 3661, 86400, 100_000])
def test_ages_are_written_as_the_server_writes_them(served: Served, browser: Browser, seconds: float) -> None:
    """In the two largest units."""

    def eye(page: Page, _: Seen) -> str:
        page.goto("/")
        return str(page.evaluate(f"span({seconds})"))

    assert time_span(seconds) == browser.look(served("ok")[0], eye)


def test_sign_in_and_out(closed: str, browser: Browser) -> None:
    """A page asks for a token, leads back, and forgets it again; the token itself is in no cookie."""

    def eye(page: Page, seen: Seen) -> None:
        page.goto("/rules/kv-cache-saturated")
        assert "/sign-in?to=rules%2Fkv-cache-saturated" in page.url
        assert [] == faults(page)
        page.fill("input[name=token]", "wrong")
        page.get_by_role("button").click()
        assert "not known" in page.inner_text("main")
        page.fill("input[name=token]", SECRET)
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("/rules/kv-cache-saturated"))
        (cookie,) = page.context.cookies()
        assert ("Strict", True) == (cookie["sameSite"], cookie["httpOnly"])
        assert SECRET not in cookie["value"]
        page.click("text=Fleet")
        assert "ana" in page.inner_text("header")
        sound(page, Seen(""))
        page.click("text=Sign out")
        assert page.url.endswith("/sign-in")
        assert [] == page.context.cookies()
        assert [] == seen.elsewhere

    browser.look(closed, eye)


def test_a_link_of_another_site_leads_where_it_should(closed: str, browser: Browser) -> None:
    """Who is signed in and follows one, as out of a message, sees the page and no form."""

    def eye(page: Page, _: Seen) -> None:
        page.goto("/sign-in")
        page.fill("input[name=token]", SECRET)
        page.keyboard.press("Enter")
        page.wait_for_selector("table.engines")
        page.set_content(f'<a href="{closed}/rules">from a message</a>')
        page.goto("about:blank")
        page.evaluate(f"location.href = '{closed}/rules'")
        page.wait_for_selector("h1:has-text('The matrix')")

    browser.look(closed, eye)


def test_data_are_as_old_as_they_are(served: Served, browser: Browser) -> None:
    """A stale source is told of on every page, and nothing is called well."""
    url, made = served("stale")

    def eye(page: Page, _: Seen) -> None:
        for path in ("/", first_engine(made), "/timeline", "/rules", "/size"):
            page.goto(path)
            assert "SOURCE STALE" in page.inner_text("main"), path
            assert "4 min 10 s old" in page.inner_text("main"), path
        page.goto("/")
        assert 0 == page.locator("table.engines .badge.ok").count()

    browser.look(url, eye)


def test_time_is_kept(incident: str, browser: Browser) -> None:
    """Who looks at a moment goes on looking at it."""

    def eye(page: Page, _: Seen) -> None:
        page.goto("/?time=2026-11-29T20:09:11Z")
        page.click("table.engines a")
        assert "THE PAST" in page.inner_text("main")
        page.click("text=Fleet")
        assert "2026-11-29 20:09:11 UTC" in page.inner_text("main")

    browser.look(incident, eye)


def test_pictures_of_hostile_labels(served: Served, browser: Browser, tmp_path: Path) -> None:
    """Nothing of a label becomes markup: it is read as it is written."""
    url, _ = served("hostile")

    def eye(page: Page, _: Seen) -> None:
        page.goto("/")
        text = page.inner_text("table.engines")
        assert "line\\nfeed" in text
        assert 'a "quoted" \\ value' in text
        assert "漢字" in text

    browser.look(url, eye)
