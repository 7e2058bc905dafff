"""Where a real process listens, who reaches it, and what it says where it cannot."""

from __future__ import annotations

import socket
import ssl
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.servers import Canned, answering, self_signed
from tests.serving import NOTHING, refused, serving, until
from tests.settings.files import secret, written

from palanca.app.server import Listen, Server
from palanca.errors import UsageError

TOKEN = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def empty() -> Iterator[Canned]:
    """A Prometheus without series."""
    with answering(NOTHING) as server:
        yield server


async def nobody(scope: object, receive: object, send: object) -> None:
    """An application that answers nothing."""


def trusting(certificate: Path, client: Path | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(certificate))
    if client is not None:
        made.load_cert_chain(client)
    return made


def settings(folder: Path, url: str, more: str) -> Path:
    text = f"sources: [{{name: prometheus, prometheus: {url}}}]\nhistory: {{database: palanca.db}}\n{more}"
    return written(folder, text)


# --- TLS -----------------------------------------------------------------------------------------


def test_tls(tmp_path: Path, empty: Canned) -> None:
    """HTTPS alone, with the certificate of the settings."""
    pem = self_signed(tmp_path / "own.pem")
    tls = "listen: {port: 0, tls: {cert_file: own.pem, key_file: own.pem}}"
    with serving(tmp_path, "--config", settings(tmp_path, empty.url, tls)) as made:
        assert made.url.startswith("https://127.0.0.1:")
        assert 200 == made.get("/healthz", tls=trusting(pem)).status
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            made.get("/healthz", tls=ssl.create_default_context())
        with made.connection() as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200" not in plain.recv(100)
        assert 0 == made.stop()[0]


def test_client_certificates(tmp_path: Path, empty: Canned) -> None:
    """Without one of that authority nobody gets an answer."""
    own, client, other = (self_signed(tmp_path / f"{name}.pem") for name in ("own", "client", "other"))
    tls = "listen: {port: 0, tls: {cert_file: own.pem, key_file: own.pem, client_ca_file: client.pem}}"
    with serving(tmp_path, "--config", settings(tmp_path, empty.url, tls)) as made:
        assert 200 == made.get("/healthz", tls=trusting(own, client)).status
        for wrong in (None, other):
            with pytest.raises((OSError, ssl.SSLError)):
                made.get("/healthz", tls=trusting(own, wrong))


@pytest.mark.parametrize(
    ("cert", "key", "client"),
    [("none.pem", "own.pem", None), ("own.pem", "other.pem", None), ("text.pem", "text.pem", None),
     ("own.pem", "own.pem", "text.pem")],
)  # fmt: skip
def test_certificates_that_cannot_be_used(tmp_path: Path, cert: str, key: str, client: str | None) -> None:
    """Named, with the setting."""
    self_signed(tmp_path / "own.pem")
    self_signed(tmp_path / "other.pem")
    (tmp_path / "text.pem").write_text("no certificate")
    authority = None if client is None else tmp_path / client
    with pytest.raises(UsageError, match=rf"^listen\.tls: .*{client or key}.* cannot be used: \S+"):
        Server(nobody, Listen("127.0.0.1", 0, tmp_path / cert, tmp_path / key, authority))


# --- addresses -----------------------------------------------------------------------------------


def test_a_port_that_is_taken(tmp_path: Path, empty: Canned) -> None:
    """Another palanca, say; its database is left alone."""
    with serving(tmp_path, "--prometheus", empty.url) as made:
        port = made.url.rpartition(":")[2]
        said = refused(tmp_path, "--prometheus", empty.url, "--port", port, "--database", tmp_path / "other.db")
        assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in said
        assert "--port" in said
        assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize(
    ("host", "reason"), [("203.0.113.7", "Cannot assign requested address"), ("a..b", "Name or service not known")]
)
def test_an_address_of_somebody_else(host: str, reason: str) -> None:
    """It cannot be had, or is not known."""
    with pytest.raises(UsageError) as error:
        Server(nobody, Listen(host, 0))
    assert f"cannot listen on {host} port 0: {reason} (give an address of this machine with --host)" == str(error.value)


def test_every_address_needs_tokens(tmp_path: Path) -> None:
    """Or the word that none are wanted; the message says how."""
    said = refused(tmp_path, "--prometheus", "http://p:9090", "--host", "0.0.0.0", "--port", "0")
    assert "listening on 0.0.0.0 lets others in" in said
    assert "auth.tokens" in said
    assert "--no-auth" in said


def test_every_address_with_tokens(tmp_path: Path, empty: Canned) -> None:
    """A token is asked for, and any name of the server will do."""
    secret(tmp_path, "token", TOKEN)
    auth = "listen: {host: 0.0.0.0, port: 0}\nauth: {tokens: [{name: ops, token_file: token}]}"
    with serving(tmp_path, "--config", settings(tmp_path, empty.url, auth)) as made:
        made.url = made.url.replace("0.0.0.0", "127.0.0.1")
        named = {"Host": "palanca.example.com"}
        assert 401 == made.get("/diagnose", headers=named).status
        assert 200 == made.get("/diagnose", headers={**named, "Authorization": f"Bearer {TOKEN}"}).status
        assert 200 == made.get("/healthz", headers=named).status


def test_without_tokens_a_name_of_another_site_is_refused(tmp_path: Path, empty: Canned) -> None:
    """A page of it could else make a browser read what only this machine may."""
    with serving(tmp_path, "--prometheus", empty.url) as made:
        assert 421 == made.get("/diagnose", headers={"Host": "evil.example.com"}).status
        assert 200 == made.get("/diagnose", headers={"Host": "localhost:9797"}).status


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6(tmp_path: Path, empty: Canned) -> None:
    """In brackets, as in a URL, or without."""
    with serving(tmp_path, "--prometheus", empty.url, "--host", "[::1]") as made:
        assert made.url.startswith("http://[::1]:")
        assert 200 == made.get("/diagnose").status


# --- usage ---------------------------------------------------------------------------------------


def test_nothing_to_watch(tmp_path: Path) -> None:
    """With how to say it."""
    assert "give --prometheus URL or --scrape URL" in refused(tmp_path)


def test_faults_of_the_settings(tmp_path: Path) -> None:
    """All of them, each with its line."""
    path = written(tmp_path, "interval: 1s\nsource: []\nlisten: {port: 99999}\n")
    said = refused(tmp_path, "--config", path)
    assert [f"{path}:{line}:" in said for line in (1, 2, 3)] == [True] * 3


def test_faults_of_what_the_settings_name(tmp_path: Path) -> None:
    """Secrets and rules, at the setting that names them."""
    path = settings(tmp_path, "http://p:9090", "auth: {tokens: [{name: a, token_file: none}]}")
    assert f"{path}:3:" in refused(tmp_path, "--config", path)


def test_secrets_that_everybody_can_read_are_told(tmp_path: Path, empty: Canned) -> None:
    """It works, and the log says how to mend it."""
    secret(tmp_path, "token", TOKEN, 0o644)
    auth = "listen: {port: 0}\nauth: {tokens: [{name: ops, token_file: token}]}"
    with serving(tmp_path, "--config", settings(tmp_path, empty.url, auth)) as made:
        assert "can be read by everybody" in made.says("chmod o-r")


def test_json_logs(tmp_path: Path, empty: Canned) -> None:
    """One object a line, but for the address, which is for people."""
    with serving(tmp_path, "--prometheus", empty.url, "--log-format", "json", "--log-level", "debug") as made:
        made.says("published")
        until(lambda: made.get("/x").status == 404)
        made.stop()
        lines = [line for line in made.lines if not line.startswith("{")]
        assert 1 == len(lines), lines
