"""What can go wrong between the service and a server; each fault is a function over one exchange."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from functools import partial
from typing import Any

from tests.faults.proxy import Answer, Exchange, Fault

DRIP_S = 0.2
HANG_S = 30.0
MOST_HUGE = 600 * 1024**2
CLOCK_OFF_S = 600.0
_PIECE = b'{"metric":{"__name__":"up","job":"' + b"x" * 65_000 + b'"},"value":[1,"1"]},'

Rows = list[dict[str, Any]]


def answering(status: int, body: bytes, headers: dict[str, str] | None = None) -> Fault:
    """Answer every question alike."""
    return lambda exchange: exchange.send(Answer(status, body, headers or {}))


def drip(exchange: Exchange) -> None:
    """Send one byte after another, slowly."""
    answer = exchange.forward()
    exchange.head(answer, len(answer.body))
    for at in range(len(answer.body)):
        exchange.write(answer.body[at : at + 1])
        if exchange.wait(DRIP_S):
            return


def truncated(exchange: Exchange) -> None:
    """Send half of the JSON as if it were whole."""
    answer = exchange.forward()
    exchange.send(replace(answer, body=answer.body[: len(answer.body) // 2]))


def reset(exchange: Exchange) -> None:
    """Send half of the body, then RST."""
    answer = exchange.forward()
    exchange.head(answer, len(answer.body))
    exchange.write(answer.body[: len(answer.body) // 2])
    exchange.reset()


def hang(exchange: Exchange) -> None:
    """Say nothing at all for 30 s, also where the server is well again meanwhile, and then hang up."""
    exchange.wait(HANG_S)
    exchange.hang_up()


def huge(exchange: Exchange) -> None:
    """Send more than anybody can want."""
    exchange.head(Answer(), MOST_HUGE)
    exchange.write(b'{"status":"success","data":{"resultType":"vector","result":[')
    for _ in range(MOST_HUGE // len(_PIECE)):
        exchange.write(_PIECE)
    exchange.hang_up()


def changed(change: Callable[[dict[str, Any]], object], exchange: Exchange) -> None:
    """Change the document of a good answer."""
    answer = exchange.forward()
    document = json.loads(answer.body)
    change(document)
    exchange.send(replace(answer, body=json.dumps(document).encode()))


def rows_changed(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Fault:
    """Change every row of a result."""

    def all_rows(document: dict[str, Any]) -> None:
        document["data"]["result"] = [change(row) for row in document["data"]["result"]]

    return partial(changed, all_rows)


def _text_result(document: dict[str, Any]) -> None:
    document["data"]["result"] = "many"


def _twice(document: dict[str, Any]) -> None:
    document["data"]["result"] *= 2


def _warned(document: dict[str, Any]) -> None:
    document["warnings"] = ["a store did not answer: some series may be missing"]


def _partly(document: dict[str, Any]) -> None:
    """Leave out every second series, as where one store of two is down."""
    _warned(document)
    document["data"]["result"] = document["data"]["result"][::2]


def _nothing(document: dict[str, Any]) -> None:
    """Leave out everything, as where all stores are down behind a server that is not."""
    _warned(document)
    document["data"]["result"] = []


def _values(row: dict[str, Any], value: object) -> dict[str, Any]:
    return {**row, "values": [value]} if "values" in row else {**row, "value": value}


def clock_off(seconds: float) -> Fault:
    """Be a server whose clock is ahead by so many seconds (negative: behind): what it stores bears its own time."""

    def fault(exchange: Exchange) -> None:
        form = {
            name: [f"{float(values[0]) - seconds:.3f}"] if name in {"time", "start", "end"} else values
            for name, values in exchange.form.items()
        }
        answer = exchange.forward(form)
        date = format_datetime(parsedate_to_datetime(answer.headers["Date"]) + timedelta(seconds=seconds), usegmt=True)
        document = json.loads(answer.body)
        for row in document["data"]["result"]:
            for pair in row.get("values", [row.get("value")]):
                pair[0] += seconds
        headers = {**answer.headers, "Date": date}
        exchange.send(Answer(answer.status, json.dumps(document).encode(), headers))

    return fault


text_result: Fault = partial(changed, _text_result)
duplicates: Fault = partial(changed, _twice)
warnings: Fault = partial(changed, _warned)
partly: Fault = partial(changed, _partly)
nothing: Fault = partial(changed, _nothing)
object_values = rows_changed(lambda row: _values(row, {"v": 1}))
number_labels = rows_changed(lambda row: {**row, "metric": {**row["metric"], "job": 7}})
html = answering(200, b"<!doctype html><title>Sign in</title>", {"Content-Type": "text/html"})
