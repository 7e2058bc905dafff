"""What only a real server shows: bodies that are left out or cut off, and connections that go on."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from tests.api.test_openapi import serving


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("http")) as found:
        yield found


@pytest.fixture
def connection(url: str) -> Iterator[http.client.HTTPConnection]:
    made = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    yield made
    made.close()


def test_head_leaves_the_connection_usable(connection: http.client.HTTPConnection) -> None:
    """No byte of a body follows the head, though the length is that of GET."""
    for method in ("GET", "HEAD", "GET", "HEAD"):
        connection.request(method, "/diagnose")
        response = connection.getresponse()
        body = response.read()
        assert (200, method == "GET") == (response.status, bool(body))
        assert int(response.headers["Content-Length"]) > 1000
        assert response.headers.get_all("Content-Length") == [response.headers["Content-Length"]]


def test_a_chunked_body_that_never_ends(connection: http.client.HTTPConnection) -> None:
    """It is refused after 1 MiB, and the connection closed."""

    def pieces() -> Iterator[bytes]:
        for _ in range(17):
            yield b"x" * 65536

    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/api/v1/history/1/acknowledge", pieces(), headers, encode_chunked=True)
    response = connection.getresponse()
    assert (413, "application/problem+json") == (response.status, response.headers["Content-Type"])
    assert "close" == response.headers["Connection"]
    assert b"1,048,576" in response.read()


def test_not_modified_has_no_body(connection: http.client.HTTPConnection) -> None:
    """And the connection goes on."""
    connection.request("GET", "/diagnose")
    first = connection.getresponse()
    first.read()
    for _ in range(2):
        connection.request("GET", "/diagnose", headers={"If-None-Match": first.headers["ETag"]})
        response = connection.getresponse()
        assert (304, b"") == (response.status, response.read())


def test_no_server_is_named(connection: http.client.HTTPConnection) -> None:
    """By no header of ours."""
    connection.request("GET", "/nothing")
    response = connection.getresponse()
    assert "palanca" not in (response.headers.get("Server") or "")
    assert 404 == response.status
