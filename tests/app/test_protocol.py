"""Heads of requests: how long they may take, and how large they may be."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from fastapi import FastAPI

from palanca.app.protocol import LARGEST_HEAD, Protocol


class Hasty(Protocol):
    """Waits for half a second."""

    longest_head = 0.5


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    app = FastAPI()

    @app.get("/")
    async def root() -> str:
        return "here"

    @app.post("/")
    async def slow() -> str:
        await asyncio.sleep(1.0)
        return "slow"

    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, http=Hasty, log_config=None, timeout_keep_alive=5))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()
    finally:
        server.should_exit = True
        thread.join()


def sent(address: tuple[str, int], *pieces: bytes, pause: float = 0.0) -> bytes:
    """Send pieces, and read until the server closes or 3 s have gone."""
    with socket.create_connection(address, timeout=3) as client:
        for piece in pieces:
            client.sendall(piece)
            time.sleep(pause)
        answer = b""
        try:
            while piece := client.recv(65536):
                answer += piece
        except (TimeoutError, ConnectionResetError):
            pass
        return answer


CLOSE = b"Connection: close\r\n\r\n"


def test_a_usual_request(address: tuple[str, int]) -> None:
    """Also in pieces."""
    assert b" 200 " in sent(address, b"GET / HTTP/1.1\r\nHost: x\r\n", CLOSE, pause=0.1)


def test_an_answer_may_take_longer_than_a_head(address: tuple[str, int]) -> None:
    """The limit is that of the head."""
    assert b"slow" in sent(address, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n" + CLOSE)


def test_two_requests_on_one_connection(address: tuple[str, int]) -> None:
    """The time between them is that of keep-alive."""
    first = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = sent(address, first, b"GET / HTTP/1.1\r\nHost: x\r\n" + CLOSE, pause=0.8)
    assert answer.count(b" 200 ") == 2


@pytest.mark.parametrize("pieces", [(b"GET / HTTP/1.1\r\nX-A: ",), (b"G", b"E", b"T", b" ")], ids=["stuck", "dripping"])
def test_a_head_that_does_not_end(address: tuple[str, int], pieces: tuple[bytes, ...]) -> None:
    """It is told, and the connection closed."""
    begin = time.monotonic()
    answer = sent(address, *pieces, pause=0.1)
    assert b"HTTP/1.1 408 " in answer
    assert b"application/problem+json" in answer
    assert time.monotonic() - begin < 2.5


def test_a_connection_without_a_request(address: tuple[str, int]) -> None:
    """It is closed without a word."""
    begin = time.monotonic()
    assert b"" == sent(address)
    assert time.monotonic() - begin < 2.5


@pytest.mark.parametrize(
    "head",
    [b"X-A: " + b"a" * (LARGEST_HEAD + 10) + b"\r\n", b"".join(b"X-%d: %s\r\n" % (n, b"a" * 1000) for n in range(80))],
    ids=["one line", "many lines"],
)
@pytest.mark.parametrize("end", [b"", CLOSE], ids=["unfinished", "whole"])
def test_a_head_that_is_too_large(address: tuple[str, int], head: bytes, end: bytes) -> None:
    """However it comes."""
    answer = sent(address, b"GET / HTTP/1.1\r\nHost: x\r\n" + head + end)
    assert answer == b"" or b"HTTP/1.1 431 " in answer  # a reset may come before what was written
    assert b" 200 " not in answer
