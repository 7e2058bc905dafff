"""Entry points of single words: matchers, moments, durations, units, expressions, PromQL, command lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from pydantic import ValidationError
from tests.api.apps import fleet
from tests.engines import END, shipped
from tests.fuzz.entry import Entry, told

from palanca import expressions, moments
from palanca.advice import command_line
from palanca.api.selection import Where
from palanca.commands import options
from palanca.errors import UsageError
from palanca.facts import given, parse_serve_args
from palanca.linting.parser import parse as parse_promql
from palanca.linting.tokens import PromQLSyntaxError
from palanca.linting.tree import selectors
from palanca.signals import promql
from palanca.units import Unit

ARGUMENT = "--max-num-seqs 96"


def text_of(data: bytes) -> str:
    """Bytes of a command line or a query as Python hands them over."""
    return data.decode("utf-8", "surrogateescape")


def within(column: int, text: str) -> bool:
    """Check that a column is one of a text."""
    assert 0 <= column <= len(text)
    return True


def matcher(data: bytes) -> bool:
    """Take ``LABEL=VALUE`` from the command line and from a query; PromQL then says the same."""
    text = text_of(data)
    with suppress(ValidationError):
        where = Where(match=[text])
        assert all(isinstance(where.keeps(one), bool) for one in fleet().targets)
    try:
        labels = options.matchers([text])
    except UsageError as error:
        return told(error, "--match")
    (made,) = promql.matchers(labels)
    (found,) = [one for selector in selectors(parse_promql(f"up{{{made}}}")) for one in selector.matchers]
    assert (*labels.items(),) == ((found.label, found.value),)
    return True


def moment(data: bytes) -> bool:
    """Read a moment, and write it."""
    text = text_of(data)
    try:
        at = moments.parse_moment(text, now=END)
    except UsageError as error:
        return told(error, "")
    assert abs(at - moments.parse_moment(moments.rfc3339(at), now=END)) < 0.001
    return True


def duration(data: bytes) -> bool:
    """Read a duration, and write it."""
    try:
        seconds = moments.seconds(text_of(data))
    except ValueError as error:
        return told(error, "")
    assert seconds == moments.seconds(moments.duration(seconds))
    return True


def unit(data: bytes) -> bool:
    """Read a unit, and write it."""
    try:
        made = Unit.parse(text_of(data))
    except ValueError as error:
        return told(error, "")
    assert made == Unit.parse(str(made))
    return True


def expression(data: bytes) -> bool:
    """Read an expression, write it, and read that; check its units."""
    text = text_of(data)
    try:
        node = expressions.parse(text)
    except expressions.ExpressionError as error:
        return told(error, "") or not within(error.column, text)
    again = expressions.text(node)
    assert again == expressions.text(expressions.parse(again))
    units = {name: spec.unit for name, spec in shipped().signals.items()}
    with suppress(expressions.ExpressionError):
        expressions.check_condition(node, units)
    return True


def promql_text(data: bytes) -> bool:
    """Read PromQL."""
    try:
        tree = parse_promql(data.decode("utf-8", "replace"))
    except PromQLSyntaxError as error:
        return told(error, "")
    assert all(isinstance(one.start, int) for one in selectors(tree))
    return True


def serve_arguments(data: bytes) -> bool:
    """Read a command line of vLLM, and make a change in it: that is in it then, once, and all else as before."""
    text = text_of(data)
    try:
        flags = parse_serve_args(text)
        given(shipped(), flags)
    except UsageError as error:
        return told(error, "--serve-args")
    try:
        made = command_line.changed(text, ARGUMENT, command_line.switches(shipped()))
    except UsageError as error:
        return not told(error, "")
    assert made is not None
    assert made.count(ARGUMENT) == 1
    kept = parse_serve_args(made)
    assert "96" == kept.pop("--max-num-seqs")
    assert set(flags) - {"--max-num-seqs"} == set(kept)
    return True


def _each(*texts: str) -> Callable[[], Iterator[bytes]]:
    return lambda: (text.encode() for text in texts)


WORDS = (
    Entry("matcher", matcher, _each("model_name=llama", 'a="\\', "instance=vllm-0:8000", "job=é\n"), ("=", "__name__")),
    Entry("moment", moment, _each("2026-11-29T20:09:11.5+02:00", "1795982951.25", "-30m", "20261129T200911Z"), ("Z",)),
    Entry("duration", duration, _each("5m", "1h30m", "0s", "1d"), ("9" * 20, "d", "h", "m", "s", "\u0665")),
    Entry("unit", unit, _each("tokens/s", "1/min", "bytes*s/request", "ratio"), ("/", "*", "tokens", "1")),
    Entry(
        "expression",
        expression,
        _each("kv_cache_usage > full and preemptions_per_minute > many", "floor(a / max(b, 1)) * 8", "not (a < b)"),
        ("and", "or", "not", "min(", "round_down(", "fleet_max(", "(", ")", ">=", "**", "1e999", "lambda: ", "é", "if"),
    ),
    Entry(
        "promql",
        promql_text,
        _each('sum by (le) (rate(x_bucket{a=~"b"}[5m])) > 1', "histogram_quantile(0.9, x) offset 5m @ end()"),
        ("sum", "by (", "[5m:1m]", "offset ", "@ ", "=~", "`", "\\x", "bool", "group_left", "#", "1e999", "0x", "{"),
    ),
    Entry(
        "serve-arguments",
        serve_arguments,
        _each("--max-num-seqs 64 --enforce-eager --swap-space=4", "vllm serve m --max_num_seqs=8 \\\n -tp 2"),
        (" --", "--no-", "=", "'", '"', "\\\n", "--max-num-seqs", "-1", "--speculative-config", "{}", "auto", "\r"),
    ),
)  # fmt: skip
