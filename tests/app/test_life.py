"""Signals to a real process: it ends in time whatever hangs, and takes over new settings or keeps the old ones."""

from __future__ import annotations

import contextlib
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.servers import Canned, answering, free_port
from tests.serving import NOTHING, Running, serving, silent, until
from tests.settings.files import secret, written

LONGEST_S = 5.0
TOKENS = ("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210")
THRESHOLD = "kv-cache-saturated: {full: %s}"


def sound(database: Path) -> bool:
    """Whether a file is a whole database."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return [("ok",)] == connection.execute("PRAGMA integrity_check").fetchall()


def ended(made: Running, number: signal.Signals = signal.SIGTERM) -> float:
    """End it, in order; the seconds that took."""
    code, seconds = made.stop(number)
    assert 0 == code, made.log
    assert seconds < LONGEST_S
    assert "Traceback" not in made.log
    return seconds


# --- the end -------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_end(tmp_path: Path, number: signal.Signals) -> None:
    """Exit code 0, and a whole database."""
    with answering(NOTHING) as server, serving(tmp_path, "--prometheus", server.url) as made:
        made.polled(result="no-targets")
        ended(made, number)
    assert sound(tmp_path / "palanca.db")


def test_end_at_once(tmp_path: Path) -> None:
    """A signal that comes with the first line of all is heeded."""
    with silent() as url, serving(tmp_path, "--prometheus", url) as made:
        ended(made)


def test_end_while_everything_hangs(tmp_path: Path) -> None:
    """A poll and fresh diagnoses under way, idle connections, half sent requests, answers that nobody reads."""
    with (
        silent() as url,
        serving(tmp_path, "--prometheus", url, "--interval", "5s") as made,
        contextlib.ExitStack() as held,
    ):
        for _ in range(4):
            fresh = held.enter_context(made.connection())
            fresh.sendall(b"GET /diagnose?fresh=true HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for _ in range(20):
            idle = held.enter_context(made.connection())
            idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert idle.recv(100).startswith(b"HTTP/1.1 200")
        for _ in range(50):
            slow = held.enter_context(made.connection())
            slow.sendall(b"GET /diagnose HTTP/1.1\r\nHost: local")
        for _ in range(10):
            deaf = held.enter_context(made.connection())
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            deaf.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
        time.sleep(0.5)
        took = ended(made)
    assert sound(tmp_path / "palanca.db")
    print(f"ended after {took:.2f} s")  # noqa: T201


def test_end_while_clients_drip(tmp_path: Path) -> None:
    """Fifty clients that go on sending, a byte at a time, hold nobody up."""
    over = threading.Event()

    def drip(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            for byte in b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 10_000:
                if over.wait(0.05):
                    return
                connection.send(bytes([byte]))

    with (
        answering(NOTHING) as server,
        serving(tmp_path, "--prometheus", server.url) as made,
        contextlib.ExitStack() as held,
    ):
        connections = [held.enter_context(made.connection()) for _ in range(50)]
        threads = [threading.Thread(target=drip, args=(one,)) for one in connections]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        try:
            ended(made)
        finally:
            over.set()
            for thread in threads:
                thread.join()


def test_end_while_the_database_does_not_answer(tmp_path: Path) -> None:
    """A thread that waits for it is left behind, and the log says so."""
    with silent() as url:
        place = url.replace("http://", "postgresql://u@") + "/palanca?connect_timeout=60"
        with (
            answering(NOTHING) as server,
            serving(tmp_path, "--prometheus", server.url, "--database", place, "--interval", "5s") as made,
        ):
            until(lambda: made.get("/readyz").status == 200)
            ended(made)
            assert "work under way is abandoned" in made.log


# --- reload --------------------------------------------------------------------------------------


class Settings:
    """A file of settings that a test writes again and again."""

    def __init__(self, folder: Path, url: str) -> None:
        self.path, self._folder, self._url = folder / "palanca.yaml", folder, url
        self.write()

    def write(self, *, more: str = "", interval: str = "1m", name: str = "prometheus", url: str = "") -> Path:
        secret(self._folder, "token", TOKENS[0])
        listen = "" if "listen:" in more else "listen: {port: 0}\n"
        history = "" if "history:" in more else "history: {database: palanca.db}\n"
        sources = f"sources: [{{name: {name}, prometheus: {url or self._url}}}]\n"
        return written(self._folder, f"interval: {interval}\n{listen}{history}{sources}{more}")


@contextlib.contextmanager
def configured(folder: Path, **first: str) -> Iterator[tuple[Running, Settings, Canned]]:
    with answering(NOTHING) as server:
        settings = Settings(folder, server.url)
        settings.write(**first)
        with serving(folder, "--config", settings.path) as made:
            yield made, settings, server


def reloaded(made: Running, change: Callable[[], object]) -> list[str]:
    """Change the file, reload it, and return what the log said of it."""
    change()
    before = len(made.lines)
    made.send(signal.SIGHUP)

    def said() -> list[str]:
        lines = list(made.lines)[before:]
        return lines if any("are reloaded" in line or "are not reloaded" in line for line in lines) else []

    return until(said)


def succeeded(made: Running) -> float | None:
    return made.metric("palanca_config_last_reload_successful")


def test_new_source_and_interval(tmp_path: Path) -> None:
    """The old source is asked no more, the new one as often as it says; what changed is logged."""
    with configured(tmp_path) as (made, settings, old), answering(NOTHING) as new:
        made.polled(result="no-targets")
        said = "".join(reloaded(made, lambda: settings.write(interval="5s", name="other", url=new.url)))
        assert "interval: 1m -> 5s" in said
        asked = len(old.requests)
        made.polled("other", 2, "no-targets", 25)
        assert asked == len(old.requests)
        assert ["other"] == [one["name"] for one in made.get("/readyz").document["sources"]]
        assert 1 == succeeded(made)
        assert made.metric('palanca_source_state{source="prometheus",state="ok"}') is None


def test_new_tokens(tmp_path: Path) -> None:
    """The one that was withdrawn is refused from then on, and that of the file is read again."""
    auth = "auth: {tokens: [{name: ops, token_file: token}]}"

    def status(token: str) -> int:
        return made.get("/diagnose", headers={"Authorization": f"Bearer {token}"}).status

    with configured(tmp_path) as (made, settings, _):
        assert 200 == made.get("/diagnose").status
        reloaded(made, lambda: settings.write(more=auth))
        assert [401, 200, 401] == [made.get("/diagnose").status, *map(status, TOKENS)]
        reloaded(made, lambda: secret(tmp_path, "token", TOKENS[1]))
        assert [401, 200] == [*map(status, TOKENS)]
        assert not [line for line in made.lines if TOKENS[0] in line or TOKENS[1] in line]


def test_a_broken_file_leaves_the_old_in_force(tmp_path: Path) -> None:
    """All its faults are logged with file and line; mended, it is taken."""
    broken = "thresholds: [{rules: {kv-cache-saturate: {full: 0.7}}}]\nauth: {tokens: [{name: a, token_file: none}]}"
    with configured(tmp_path) as (made, settings, server):
        made.polled(result="no-targets")
        said = "".join(reloaded(made, lambda: settings.write(more="interva: 5s\nlog: {level: loud}")))
        assert "palanca.yaml:5:1" in said
        assert "palanca.yaml:6:" in said
        assert 0 == succeeded(made)
        assert "palanca.yaml:6:" in "".join(reloaded(made, lambda: settings.write(more=broken)))
        reloaded(made, lambda: settings.path.write_text("{"))
        reloaded(made, settings.path.unlink)
        assert 0 == succeeded(made)
        assert [server.url] == [one["url"] for one in made.get("/readyz").document["sources"]]
        reloaded(made, settings.write)
        assert 1 == succeeded(made)
        assert "Traceback" not in made.log


def test_what_needs_a_restart_is_said(tmp_path: Path) -> None:
    """Again at every reload, until it is made or taken back."""
    more = f"listen: {{port: {free_port()}}}\nhistory: {{enabled: false}}"
    with configured(tmp_path) as (made, settings, _):
        for _ in range(2):
            said = "".join(reloaded(made, lambda: settings.write(more=more)))
            assert "listen.port" in said
            assert "history.enabled: True -> False" in said
            assert "needs_restart=True" in said
            assert 1 == succeeded(made)
        assert made.get("/api/v1/history").document["history"]["enabled"]
        assert "needs_restart" not in "".join(reloaded(made, settings.write))


def test_nobody_is_let_in_before_the_restart(tmp_path: Path) -> None:
    """A file that goes back to loopback without tokens would open what still listens on every address."""
    auth = "listen: {host: 0.0.0.0, port: 0}\nauth: {tokens: [{name: ops, token_file: token}]}"
    with configured(tmp_path, more=auth) as (made, settings, _):
        said = "".join(reloaded(made, settings.write))
        assert "0.0.0.0 lets others in" in said
        assert 0 == succeeded(made)
        assert 401 == made.get("/diagnose", headers={"Host": "localhost"}).status


def test_log_level(tmp_path: Path) -> None:
    """Of the file; a flag would go before it."""
    with answering(NOTHING) as server:
        settings = Settings(tmp_path, server.url)
        with serving(tmp_path, "--config", settings.path) as made:
            reloaded(made, lambda: settings.write(more="log: {level: debug}"))
            made.says("polled")


def test_reload_while_the_source_hangs(tmp_path: Path) -> None:
    """The poll of the old source is ended; the new one is read at once."""
    with silent() as url, configured(tmp_path, url=url) as (made, settings, _):
        begin = time.monotonic()
        reloaded(made, settings.write)
        made.polled(result="no-targets", seconds=5)
        assert time.monotonic() - begin < 6


def test_twenty_reloads_leak_nothing(tmp_path: Path) -> None:
    """Neither threads nor files; several signals at once are taken one after the other."""
    with configured(tmp_path) as (made, settings, _):
        made.polled(result="no-targets")
        for number in range(3):
            reloaded(made, lambda number=number: settings.write(interval=f"{number + 10}s"))  # type: ignore[misc]
        time.sleep(0.5)
        before = made.threads(), made.files()
        for number in range(20):
            reloaded(made, lambda number=number: settings.write(interval=f"{number + 10}s"))  # type: ignore[misc]
        for _ in range(10):
            made.send(signal.SIGHUP)
        time.sleep(2)
        after = made.threads(), made.files()
        assert after[0] <= before[0] + 2, (before, after)
        assert after[1] <= before[1] + 2, (before, after)
        assert 1 == succeeded(made)
        ended(made)
        print(f"threads and files {before} before, {after} after")  # noqa: T201
