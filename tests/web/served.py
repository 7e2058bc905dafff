"""Pages over real HTTP in Debian's chromium, and the states in which they are looked at."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import ConsoleMessage, Page, Playwright, Request, Route, sync_playwright
from tests.api.apps import KINDS, World, fleet, odd, recorded, world
from tests.engines import readings, shipped
from tests.servers import free_port, tool

from palanca.daemon.fleet import aged
from palanca.diagnosis import diagnose
from palanca.model import Diagnosis, SourceInfo, State, Target
from palanca.web.links import engine_link

T = TypeVar("T")

ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
WIDE, PHONE = 1280, 390
UNWELL = SourceInfo("prometheus", "http://prometheus:9090", "unreachable", None, (), "connection refused\nsecond line")


# --- the browser -----------------------------------------------------------------------------------


class Browser:
    """One chromium, in a thread of its own: its driver needs one in which nothing else runs an event loop."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="browser")
        self._driver: Playwright = self._thread.submit(lambda: sync_playwright().start()).result()
        self._browser = self._thread.submit(
            lambda: self._driver.chromium.launch(executable_path=tool("chromium"), args=[*ARGUMENTS])
        ).result()

    def close(self) -> None:
        self._thread.submit(self._browser.close).result()
        self._thread.submit(self._driver.stop).result()
        self._thread.shutdown()

    def look(self, url: str, eye: Callable[[Page, Seen], T], **context: Any) -> T:  # noqa: ANN401  of Playwright
        """Open a context of its own, and do what ``eye`` does with a page of the server at ``url``."""

        def see() -> T:
            made = self._browser.new_context(base_url=url, **{"viewport": {"width": WIDE, "height": 900}, **context})
            try:
                page, seen = made.new_page(), Seen(url)
                page.set_default_timeout(10_000)
                page.route("**/*", seen.only_here)
                page.on("console", seen.heard)
                page.on("pageerror", lambda error: seen.says.append(str(error)))
                return eye(page, seen)
            finally:
                made.close()

        return self._thread.submit(see).result()


@dataclass
class Seen:
    """What a page said and asked for besides what it shows."""

    url: str

    def __post_init__(self) -> None:
        self.says: list[str] = []
        self.elsewhere: list[str] = []

    def heard(self, message: ConsoleMessage) -> None:
        """Note what is an error or a warning."""
        if message.type in {"error", "warning"}:
            self.says.append(message.text)

    def only_here(self, route: Route, request: Request) -> None:
        """Note what goes to another server, and let it go nowhere."""
        if request.url.startswith((self.url, "data:")):
            route.continue_()
        else:
            self.elsewhere.append(request.url)
            route.abort()


def faults(page: Page) -> list[str]:
    """What axe-core finds that is serious."""
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{one['id']}: {one['help']}: {json.dumps([node['html'][:200] for node in one['nodes'][:3]])}"
        for one in found
        if one["impact"] in {"serious", "critical"}
    ]


@contextmanager
def http(made: World) -> Iterator[str]:
    """Serve an application on a port of its own; yields its address."""
    config = uvicorn.Config(made.app, port=free_port(), log_config=None, access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    try:
        deadline = time.monotonic() + 20
        while not server.started:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield f"http://127.0.0.1:{config.port}"
    finally:
        server.should_exit = True
        thread.join(20)


# --- states ----------------------------------------------------------------------------------------


def engines(*kinds: Mapping[str, Any], **facts: object) -> Diagnosis:
    """Engines of one model, each with some signals."""
    targets = [
        Target.of({"job": "vllm", "instance": f"vllm-{at}:8000", "model_name": "llama"}) for at in range(len(kinds))
    ]
    return diagnose(shipped(), readings(*kinds, targets=targets, facts=facts))


WELL, SICK = KINDS[2], KINDS[0]
QUIET = {
    **WELL, "requests_per_second": 5.0, "running_max": 2, "waiting_max": 0, "itl_p99": 0.02, "prefix_hit_rate": 0.5,
}  # fmt: skip
SILENT = {"up": 1, "running": State.STALE, "waiting": State.STALE, "kv_cache_usage": State.STALE}
LATE = {**WELL, "ttft_p99": 9.0}


def stale(diagnosis: Diagnosis) -> World:
    """The source has not answered for a while."""
    old = SourceInfo("prometheus", "http://prometheus:9090", "stale", 250.0, (), "timed out after 30 s")
    made = world(replace(diagnosis, source=old, targets=tuple(aged(one) for one in diagnosis.targets)))
    made.backend.infos = [old]
    return made


def unreachable() -> World:
    """No source has ever answered."""
    made = world(Diagnosis(fleet().time, UNWELL, (), (UNWELL,)))
    made.backend.infos = [UNWELL]
    return made


STATES: Mapping[str, Callable[[], World]] = {
    "ok": lambda: world(engines(QUIET, QUIET)),
    "warning": lambda: world(engines(LATE, QUIET, **{"slo.ttft_p99": 1.0})),
    "critical": lambda: world(recorded()),
    "unknown": lambda: world(engines(SILENT, QUIET)),
    "stale": lambda: stale(engines(SICK, QUIET)),
    "unreachable": unreachable,
    "empty": lambda: world(replace(fleet(), targets=())),
    "hostile": lambda: world(odd()),
    "mixed": lambda: world(fleet(12)),
    "thousand": lambda: world(fleet(1000)),
}
"""By name; each made anew."""


def first_engine(made: World) -> str:
    """Address of the page of the worst engine; of the first page where there is none."""
    reports = made.backend.snapshot.diagnosis.targets
    worst = sorted(reports, key=lambda one: (not one.findings, one.target.labels))
    return "/" + engine_link(worst[0].target, None) if worst else "/"
