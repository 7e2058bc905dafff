"""The generic webhook: what it sends, how it is signed, and what its answers mean."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import given, settings
from pydantic import SecretStr
from tests.render.test_slack import HOSTILE, notice
from tests.servers import ROOT, free_port

from palanca.errors import NotifyError, UsageError
from palanca.notify.values import values
from palanca.notify.webhook import Hook, Webhook, retry_after
from palanca.outgoing import Delivery
from palanca.render.template import NAMES, check, filled

NOW = 1_800_000_000.0


@dataclass
class Server:
    """Keeps what it is sent."""

    url: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.got.append((dict(self.headers), body))
            self.send_response(made.status)
            for name, value in {"Content-Length": "4", **made.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"said")

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        made.url = f"http://127.0.0.1:{http.server_port}/in?key=secret"
        yield made
        http.shutdown()
        thread.join()


def delivery(**changes: Any) -> Delivery:  # noqa: ANN401  fields of a delivery
    plain: dict[str, Any] = {"key": "k1", "kind": "post", "notice": notice(), "now": NOW}
    return Delivery(**{**plain, **changes})


def webhook(server: Server, **options: Any) -> Webhook:  # noqa: ANN401  fields of a hook
    return Webhook(Hook(SecretStr(server.url), "the webhook ops", **options))


def test_everything_that_is_known(server: Server) -> None:
    """Without a template; with the key of the message."""
    webhook(server).send(delivery())
    headers, body = server.got[0]
    document = json.loads(body)
    assert set(NAMES) == set(document)
    assert ("palanca.notice/v1", "critical", "3 of 8 engines") == (
        document["schema"], document["severity"], document["where"]
    )  # fmt: skip
    assert "--kv-cache-dtype auto -> fp8" == document["proposal"]["change"]
    assert ("application/json", "k1") == (headers["Content-Type"], headers["Idempotency-Key"])


def test_every_placeholder_is_documented() -> None:
    """In docs/notify.md."""
    page = (ROOT / "docs" / "notify.md").read_text(encoding="utf-8")
    assert [] == [name for name in NAMES if f"`{{{name}}}`" not in page]


def test_a_template(server: Server) -> None:
    """A placeholder alone becomes its value, inside a text it becomes text; braces are doubled."""
    template = {
        "message": "{title} on {labels.model_name}: {where}", "level": "{severity}", "n": "{affected}",
        "engines": "{engines}", "more": [{"labels": "{labels}", "is": True, "ended": "{ended}", "literal": "{{x}}"}],
        "list": "of {engines}", "none": "{labels.nothing}",
    }  # fmt: skip
    webhook(server, template=template).send(delivery(notice=notice(engines=("a", "b"))))
    document = json.loads(server.got[0][1])
    assert {
        "message": "KV cache is full and requests are being preempted on llama-3-8b: 3 of 8 engines",
        "level": "critical", "n": 3, "engines": ["a", "b"],
        "more": [{"labels": dict(notice().labels), "is": True, "ended": None, "literal": "{x}"}],
        "list": "of a, b", "none": None,
    } == document  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(HOSTILE)
def test_no_text_breaks_out_of_a_template(text: str) -> None:
    """Whatever a label is, the keys stay as they are, and it arrives as it is."""
    given_ = values(delivery(notice=notice(title=text, labels={"model_name": text})))
    made = json.loads(json.dumps(filled({"a": "{title}", "b": ["x {title} y", "{labels}"]}, given_)))
    assert {"a", "b"} == set(made)
    clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if "\ufffd" not in clean:
        assert [text, f"x {text} y", {"model_name": text}] == [made["a"], *made["b"]]


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ({"a": "{titel}"}, "there is no placeholder {titel}; one of schema, kind"),
        ({"a": ["{title!r}"]}, "has a format"),
        ({"a": "{title:>9}"}, "has a format"),
        ({"a": "{"}, "is no template"),
        ({"a": "{}"}, "there is no placeholder {}"),
        ({"a": "{title.__class__}"}, "there is no placeholder {title.__class__}"),
        ({"a": "{labels[0]}"}, "there is no placeholder"),
    ],
)
def test_templates_that_are_none(template: object, said: str) -> None:
    """What is wrong, and what there is."""
    with pytest.raises(UsageError) as found:
        check(template)
    assert said in str(found.value)


def test_credentials_and_a_signature(server: Server) -> None:
    """A header, and the HMAC of time stamp and body."""
    secret = "0123456789abcdef"
    webhook(server, headers={"Authorization": SecretStr("Bearer t")}, secret=SecretStr(secret)).send(delivery())
    headers, body = server.got[0]
    assert "Bearer t" == headers["Authorization"]
    signed = f"{int(NOW)}.".encode() + body
    assert f"sha256={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}" == headers["X-Palanca-Signature"]


@pytest.mark.parametrize(
    ("status", "headers", "about", "wait"),
    [
        (400, {}, "message", None),
        (422, {}, "message", None),
        (401, {}, "receiver", None),
        (404, {}, "receiver", None),
        (301, {"Location": "http://x"}, "receiver", None),
        (500, {}, "receiver", None),
        (429, {"Retry-After": "12"}, "receiver", 12.0),
        (503, {"Retry-After": "Fri, 15 Jan 2027 08:01:00 GMT"}, "receiver", 60.0),
    ],
)
def test_refusals(server: Server, status: int, headers: dict[str, str], about: str, wait: float | None) -> None:
    """Whether it concerns the message or the way, and when to try again; without the address."""
    server.status, server.headers = status, headers
    with pytest.raises(NotifyError, match=f"the webhook ops answers {status}") as found:
        webhook(server).send(delivery())
    assert (about, wait) == (found.value.about, found.value.retry_after)
    assert "secret" not in str(found.value)


@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_without_end(status: int) -> None:
    """What a receiver goes on to say is not waited for, and not kept."""
    over = Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(status)
            self.end_headers()
            while not over.wait(0.01):
                try:
                    self.wfile.write(b"and so on " * 1000)
                except OSError:
                    over.set()

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        hook = Webhook(Hook(SecretStr(f"http://127.0.0.1:{http.server_port}"), "the webhook ops", timeout=5))
        try:
            if status == 200:
                hook.send(delivery())
            else:
                with pytest.raises(NotifyError, match=r"answers 500: and so on") as error:
                    hook.send(delivery())
                assert len(str(error.value)) < 300
            assert over.wait(10)  # the connection was closed
        finally:
            over.set()
            http.shutdown()
            thread.join()


def test_nobody_listens() -> None:
    """Said without the address."""
    with pytest.raises(NotifyError) as found:
        webhook(Server(f"http://127.0.0.1:{free_port()}/secret")).send(delivery())
    assert "the webhook ops cannot be reached: " in str(found.value)
    assert "secret" not in str(found.value)


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("5", 5.0), ("-5", 0.0), ("soon", None), (None, None), ("9" * 400, None),
        ("Fri, 15 Jan 2027 08:01:00 -0000", 60.0), (f"Fri, 15 Jan {'3' * 22} 08:01:00 GMT", None),
    ],
)  # fmt: skip
def test_retry_after(text: str | None, wait: float | None) -> None:
    """Seconds or a date."""
    assert wait == retry_after(text, NOW)


def test_digests_and_tests() -> None:
    """Every kind has a text."""
    assert "Test message of palanca: nothing is wrong" == values(delivery(kind="test", notice=None))["text"]
    digest = values(delivery(kind="digest", notice=None, many=(notice(), notice())))
    assert (2, 2) == (len(digest["notices"]), len(digest["text"].splitlines()))


def test_every_kind_of_value_is_json() -> None:
    """Also of empty notices."""
    assert json.dumps(values(delivery(notice=None)), allow_nan=False)
