"""A Slack of the tests' own, which keeps Slack's documented limits and refuses what breaks one.

Incoming webhooks at ``/services/NAME``, and of the API ``chat.postMessage``, ``chat.update``, ``conversations.history``
and ``conversations.replies`` at ``/api/``. What is posted stands in ``messages``. Limits: header 150 characters of
plain text, section 3,000, 10 fields of 2,000, context 10 elements, 50 blocks, addresses 3,000, all blocks 13,200, one
message a second and channel (429 with ``Retry-After``). Texts are counted in UTF-16, as they are sent.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

TOKEN = "xoxb-test-token"
CHANNEL = "C0123456789"
HOOK = "hook-secret"
MENTION = re.compile(r"<(!|@|#)")
LINK = re.compile(r"<([^<>|]*)\|?([^<>]*)>")
ENTITY = re.compile(r"&(?!amp;|lt;|gt;)")


def units(text: str) -> int:
    """Length in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


class Refused(Exception):  # noqa: N818  what Slack calls an error
    """An error of the API."""


def check_message(body: Mapping[str, Any]) -> None:
    """Raise what Slack would refuse."""
    text = body.get("text", "")
    if not isinstance(text, str) or units(text) > 40_000:
        raise Refused("msg_too_long")
    assert units(text) <= 4000, "Slack asks for at most 4,000 characters of text"
    check_text(text)
    blocks = body.get("blocks") or []
    attachments = body.get("attachments") or []
    if not text.strip() and not blocks and not attachments:
        raise Refused("no_text")
    if len(attachments) > 100:
        raise Refused("too_many_attachments")
    total = 0
    for part in [blocks, *(one.get("blocks", []) for one in attachments)]:
        if len(part) > 50:
            raise Refused("invalid_blocks")
        total += sum(map(check_block, part))
    if total > 13_200:
        raise Refused("msg_blocks_too_long")
    for one in attachments:
        if not set(one) <= {"color", "blocks", "fallback"} or not re.fullmatch(r"#[0-9a-f]{6}", one.get("color", "")):
            raise Refused("invalid_attachments")
        check_text(one.get("fallback", ""))


def check_block(block: Mapping[str, Any]) -> int:
    """Raise ``invalid_blocks``; the characters of the block."""
    match block:
        case {"type": "header", "text": {"type": "plain_text"} as text} if set(block) == {"type", "text"}:
            return _text(text, 150)
        case {"type": "section", **rest} if rest and set(rest) <= {"text", "fields"}:
            count = _text(rest["text"], 3000) if "text" in rest else 0
            if "fields" in rest and not 1 <= len(rest["fields"]) <= 10:
                raise Refused("invalid_blocks")
            return count + sum(_text(one, 2000) for one in rest.get("fields", []))
        case {"type": "context", "elements": [_, *_] as elements} if len(elements) <= 10:
            return sum(_text(one, 3000) for one in elements)
        case {"type": "divider"}:
            return 0
    raise Refused("invalid_blocks")


def _text(value: Mapping[str, Any], most: int) -> int:
    text, kind = value.get("text"), value.get("type")
    allowed = {"plain_text": {"type", "text", "emoji"}, "mrkdwn": {"type", "text", "verbatim"}}.get(str(kind), set())
    if not isinstance(text, str) or not 1 <= units(text) <= most or not set(value) <= allowed:
        raise Refused("invalid_blocks")
    check_text(text)
    return units(text)


def check_text(text: str) -> None:
    """No mention, nothing unescaped, no control characters, and only links to HTTP addresses that Slack takes."""
    assert not MENTION.search(text), f"a mention: {text!r}"
    assert not ENTITY.search(text), f"an ampersand that is not escaped: {text!r}"
    bare = LINK.sub("", text)
    assert "<" not in bare, f"not escaped: {text!r}"
    assert ">" not in bare, f"not escaped: {text!r}"
    for url, _ in LINK.findall(text):
        assert re.match(r"https?://", url), url
        if units(url) > 3000:
            raise Refused("invalid_blocks")
    wrong = [
        one for one in text if (ord(one) < 32 and one != "\n") or one in "\u202a\u202b\u202d\u202e\u2066\u2067\u200f"
    ]
    assert not wrong, f"{wrong} in {text!r}"


@dataclass
class Message:
    """One message as it stands in a channel."""

    channel: str
    ts: str
    body: dict[str, Any]
    thread: str | None = None
    edits: int = 0

    @property
    def title(self) -> str:
        """Its header, or its text."""
        head = next((one["text"]["text"] for one in self.body.get("blocks") or [] if one["type"] == "header"), None)
        return str(head or self.body["text"])

    @property
    def whole(self) -> str:
        return json.dumps(self.body, ensure_ascii=False)


@dataclass
class FakeSlack:
    """``clock`` is that of the pace; ``failing`` gives an answer in place of Slack's own, or None."""

    clock: Callable[[], float] = time.monotonic
    pace: float = 1.0
    messages: list[Message] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    failing: Callable[[str], tuple[int, str, dict[str, str]] | None] = lambda _: None
    lose_answer: bool = False
    """Take the next message and hang up without an answer."""
    history: bool = True
    """Whether the token may read the channel."""
    problems: list[str] = field(default_factory=list)
    url: str = ""
    _last: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def api(self) -> str:
        return f"{self.url}/api/"

    @property
    def hook(self) -> str:
        return f"{self.url}/services/{HOOK}"

    @property
    def roots(self) -> list[Message]:
        return [one for one in self.messages if one.thread is None]

    @property
    def titles(self) -> list[str]:
        return [one.title for one in self.roots]

    def replies(self, root: Message) -> list[str]:
        return [one.title for one in self.messages if one.thread == root.ts]

    def answer(self, path: str, headers: Mapping[str, str], raw: bytes) -> tuple[int, str, dict[str, str]]:
        """Answer one request: status, body, headers."""
        with self._lock:
            broken = self.failing(path)
            if broken is not None:
                return broken
            try:
                if path.startswith("/services/"):
                    return self._hook(path, json.loads(raw))
                method = path.removeprefix("/api/")
                plain = {name: one[0] for name, one in parse_qs(raw.decode()).items()}
                asked = json.loads(raw) if "json" in headers.get("Content-Type", "") else plain
                if headers.get("Authorization") != f"Bearer {TOKEN}":
                    raise Refused("invalid_auth")  # noqa: TRY301
                self.calls.append((method, asked))
                methods = {"chat.postMessage": self._post, "chat.update": self._update}
                made = methods.get(method, self._history)(asked)
                return 200, json.dumps({"ok": True, **made}), {"Content-Type": "application/json"}
            except Refused as error:
                code = str(error)
                if code == "ratelimited":
                    return 429, json.dumps({"ok": False, "error": code}), {"Retry-After": "1"}
                if path.startswith("/services/"):
                    return 400, code, {}
                return 200, json.dumps({"ok": False, "error": code}), {"Content-Type": "application/json"}
            except AssertionError as error:
                self.problems.append(str(error))
                raise

    def _hook(self, path: str, body: dict[str, Any]) -> tuple[int, str, dict[str, str]]:
        if path != f"/services/{HOOK}":
            return 404, "no_service", {}
        if not self._in_pace("webhook"):
            return 429, "rate_limited", {"Retry-After": "1"}
        if "channel" in body or "metadata" in body or "thread_ts" in body:
            raise Refused("invalid_payload")
        check_message(body)
        self._add("webhook", body)
        return 200, "ok", {}

    def _in_pace(self, channel: str) -> bool:
        now = self.clock()
        if now - self._last.get(channel, -1e9) < self.pace - 0.01:
            return False
        self._last[channel] = now
        return True

    def _add(self, channel: str, body: dict[str, Any], thread: str | None = None) -> Message:
        made = Message(channel, f"{1_800_000_000 + len(self.messages)}.{len(self.messages):06}", body, thread)
        self.messages.append(made)
        return made

    def _post(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked.get("channel") not in {CHANNEL, "#ops"}:
            raise Refused("channel_not_found")
        if not self._in_pace(CHANNEL):
            raise Refused("ratelimited")
        check_message(asked)
        thread = asked.get("thread_ts")
        if thread is not None and thread not in {one.ts for one in self.roots}:
            raise Refused("thread_not_found")
        made = self._add(CHANNEL, asked, thread)
        return {"channel": CHANNEL, "ts": made.ts}

    def _update(self, asked: dict[str, Any]) -> dict[str, Any]:
        check_message(asked)
        for one in self.messages:
            if (one.channel, one.ts) == (asked.get("channel"), asked.get("ts")):
                one.body, one.edits = asked, one.edits + 1
                return {"channel": one.channel, "ts": one.ts}
        raise Refused("message_not_found")

    def _history(self, asked: dict[str, Any]) -> dict[str, Any]:
        if not self.history:
            raise Refused("missing_scope")
        if asked["channel"] != CHANNEL:
            raise Refused("channel_not_found")
        found = [one for one in self.messages if one.thread == asked.get("ts") or one.ts == asked.get("ts")]
        return {"messages": [{"ts": one.ts, "metadata": one.body.get("metadata")} for one in found[::-1]]}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, slack: FakeSlack) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.slack = slack

    def handle_error(self, request: object, client_address: object) -> None:
        """What went wrong stands in ``problems``."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, text, headers = self.server.slack.answer(self.path, dict(self.headers), raw)
        if self.server.slack.lose_answer and status == 200:
            self.server.slack.lose_answer = False
            return
        body = text.encode()
        self.send_response_only(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@contextmanager
def slack(**options: Any) -> Iterator[FakeSlack]:  # noqa: ANN401  those of FakeSlack
    """Serve a Slack; in the end nothing may have been sent that it would not show as meant."""
    made = FakeSlack(**options)
    with _Server(made) as server:
        made.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()
    assert [] == made.problems
