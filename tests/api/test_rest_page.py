"""docs/rest.md: every example gives what the page says, and nothing that the API has is missing there."""

from __future__ import annotations

import base64
import doctest
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from tests.api.apps import Answer, Json, World, fleet, kept, world
from tests.engines import ROOT

from palanca.api.access import Token, Tokens
from palanca.api.guard import Rules, own_hosts

PAGE = (ROOT / "docs" / "rest.md").read_text(encoding="utf-8")
BLOCKS = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}
SECRET = "s3cret"


@dataclass(frozen=True)
class Example:
    """A command, the lines below it, and the block that follows, if it is its output."""

    command: str
    lines: tuple[str, ...]
    kind: str = ""
    body: str = ""


def examples() -> Iterator[Example]:
    found = BLOCKS.findall(PAGE)
    for (kind, text), following in zip(found, [*found[1:], ("", "")], strict=True):
        if kind != "console":
            continue
        parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
        for number, part in enumerate(parts):
            command, *lines = part.splitlines()
            last = number == len(parts) - 1 and following[0] in {"json", "text"}
            yield Example(command, tuple(lines), *(following if last else ()))


def run(command: str, open_: World, closed: World) -> Answer:
    """Do what curl would do, with the flags that the page uses."""
    command, _, remark = command.partition("    # ")
    words = iter(shlex.split(command.replace("$TOKEN", SECRET)))
    assert "curl" == next(words)
    method, headers, url, query, body = "GET", dict[str, str](), "", list[str](), b""
    for word in words:
        match word:
            case "-s" | "-i" | "-sG":
                pass
            case "-I":
                method = "HEAD"
            case "-H":
                name, _, value = next(words).partition(": ")
                headers[name] = value.replace("$ETAG", open_.get("/diagnose")["ETag"])
            case "-u":
                headers["Authorization"] = "Basic " + base64.b64encode(next(words).encode()).decode()
            case "-d":
                query.append(next(words))
            case "--data-urlencode":
                name, _, value = next(words).partition("=")
                query.append(f"{name}={quote(value)}")
            case "--json":
                method, body, headers["Content-Type"] = "POST", next(words).encode(), "application/json"
            case _:
                assert word.startswith("http://127.0.0.1:9797/"), word
                url = word
    parts = urlsplit(url)
    host = headers.pop("Host", parts.netloc)
    mine = closed if remark == "with tokens" else open_
    return mine.send(
        method, parts.path, "&".join([*filter(None, [parts.query]), *query]), headers=headers, body=body, host=host
    )


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, World]:
    folder: Path = tmp_path_factory.mktemp("page")
    open_ = world(fleet(), rules=Rules(hosts=own_hosts("127.0.0.1", None)), history=kept(folder, fleet()))
    return open_, world(fleet(), rules=Rules(Tokens([Token("grafana", "read", SECRET)])))


@pytest.mark.parametrize("example", [*examples()], ids=lambda one: one.command)
def test_example(example: Example, worlds: tuple[World, World]) -> None:
    """Status and headers as shown, and the body, where ``...`` stands for anything."""
    answer = run(example.command, *worlds)
    if example.lines:
        status, *headers = example.lines
        title = TITLES.get(answer.status, HTTPStatus(answer.status).phrase)
        assert f"HTTP/1.1 {answer.status} {title}" == status
        for line in headers:
            name, _, value = line.partition(": ")
            assert matches(value, answer[name])
    else:
        assert 200 == answer.status, answer.text
    if example.body:
        got = json.dumps(answer.json, indent=2) if example.kind == "json" else answer.text
        assert matches(example.body, got), got[:5000]


def matches(wanted: str, got: str) -> bool:
    """Whether a text is as shown; ``...`` stands for anything."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(wanted.rstrip() + "\n", got + "\n", flags)


def test_there_are_examples() -> None:
    """The page is read as it is meant to be."""
    assert len(list(examples())) > 15
    assert len([one for one in examples() if one.body]) > 8


def document() -> Json:
    return json.loads((ROOT / "docs" / "schema" / "openapi.json").read_text(encoding="utf-8"))


def test_every_route_is_there() -> None:
    """With its method."""
    for path, item in document()["paths"].items():
        for method in item:
            assert f"| `{method.upper()} {path}` |" in PAGE


def test_every_parameter_is_there() -> None:
    """As code; and the page names no other in its tables."""
    names = {
        parameter["name"]
        for item in document()["paths"].values()
        for operation in item.values()
        for parameter in operation.get("parameters", [])
        if parameter["in"] == "query"
    }
    for name in names:
        assert re.search(rf"`{name}(=[^`]*)?`", PAGE), name


def test_every_status_is_there() -> None:
    """That the document has, and that it cannot have."""
    table = PAGE.partition("| status | when |")[2].partition("\n\n")[0]
    first = " ".join(row.split("|")[1] for row in table.strip().splitlines())
    statuses = {
        status
        for item in document()["paths"].values()
        for operation in item.values()
        for status in operation["responses"]
        if int(status) >= 400
    }
    assert statuses | {"405"} == set(re.findall(r"[0-9]{3}", first))
