"""Sends a load to a server that speaks OpenAI's API, and measures by its own clock.

Plain asyncio: the machine is small, and what the client takes the server lacks.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lab.load import FIRST_WORD, WORDS, Load, Request, requests

PATIENCE_S = 90.0
"""The longest time for one request."""
MOST = 50_000
"""Requests that a load sends at most."""
MOST_AT_ONCE = 256
"""Requests in flight at most: more are not sent, and counted."""


@dataclass
class Answer:
    """One request by the client's clock: unix seconds at which it was sent and each piece came; tokens; what failed."""

    sent: float
    prompt: int
    pieces: list[float] = field(default_factory=list)
    tokens: int = 0
    error: str | None = None


@dataclass
class Run:
    """All that came of a load: begin and end in unix seconds, finished requests, and how many were not sent."""

    begin: float
    end: float = 0.0
    answers: list[Answer] = field(default_factory=list)
    sent: int = 0
    held_back: int = 0


class _Sender:
    def __init__(self, port: int, model: str, load: Load, run: Run) -> None:
        self._port, self._model, self._load, self._run = port, model, load, run

    async def closed(self, seed: int, client: int) -> None:
        for one in requests(self._load, seed, client):
            if self._run.sent >= MOST:
                return
            await self.ask(one)

    async def open(self, seed: int) -> None:
        flying: set[asyncio.Task[None]] = set()
        began = time.monotonic()
        try:
            for one in requests(self._load, seed):
                await asyncio.sleep(max(began + one.due - time.monotonic(), 0))
                if self._run.sent >= MOST:
                    return
                if len(flying) >= MOST_AT_ONCE:
                    self._run.held_back += 1
                    continue
                task = asyncio.create_task(self.ask(one))
                flying.add(task)
                task.add_done_callback(flying.discard)
        finally:
            for task in flying:
                task.cancel()

    async def ask(self, request: Request) -> None:
        """Send one request; its answer is kept unless it is cancelled."""
        answer = Answer(time.time(), len(request.prompt))
        self._run.sent += 1
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._stream(request, answer)
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError) as error:
            answer.error = type(error).__name__
            await asyncio.sleep(0.2)
        self._run.answers.append(answer)

    async def _stream(self, request: Request, answer: Answer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(self._message(request))
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in head.partition(b"\r\n")[0]:
                raise ValueError(head.partition(b"\r\n")[0].decode())
            async for event in _events(reader):
                if event.get("choices"):
                    answer.pieces.append(time.time())
                if event.get("usage"):
                    answer.tokens = event["usage"]["completion_tokens"]
            if not answer.tokens:
                raise ValueError("the answer has no end")
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _message(self, request: Request) -> bytes:
        words = self._load.words
        body = json.dumps(
            {
                "model": self._model,
                "prompt": request.prompt,
                "max_tokens": request.answer,
                "ignore_eos": True,
                "temperature": 1.0,
                "stream": True,
                "stream_options": {"include_usage": True},
                **({"allowed_token_ids": list(range(FIRST_WORD, FIRST_WORD + words))} if words < WORDS else {}),
            }
        ).encode()
        return (
            b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        ) + body


async def _events(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """Events of a stream in HTTP chunks, as JSON."""
    kept = b""
    while size := int(await reader.readline(), 16):
        kept += await reader.readexactly(size)
        await reader.readexactly(2)
        *events, kept = kept.split(b"\n\n")
        for event in events:
            data = event.strip().removeprefix(b"data: ")
            if data != b"[DONE]":
                yield json.loads(data)


async def send(port: int, model: str, load: Load, seed: int, until: float) -> Run:
    """Send a load until a moment (unix seconds); what is then in flight is given up."""
    run = Run(time.time())
    sender = _Sender(port, model, load, run)
    work = [sender.closed(seed, client) for client in range(load.clients)] or [sender.open(seed)]
    tasks = [asyncio.create_task(one) for one in work]
    _, left = await asyncio.wait(tasks, timeout=max(until - time.time(), 0))
    run.end = time.time()
    for task in left:
        task.cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    for one in done:
        if isinstance(one, Exception):
            raise one
    return run
