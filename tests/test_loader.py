"""Reading YAML files: every way in which one can be broken gives a fault with its place, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.permissions import nobody
from tests.rule_folders import MINIMAL, SATURATED, TTFT_HIGH, changed, copied, faults, place, written

from palanca.check import load_catalogue
from palanca.errors import Fault, RuleFileError
from palanca.loader import Facts, Signals, build, load, read
from palanca.model import Rule


def fault_of(folder: Path, text: str | bytes) -> Fault:
    """The only fault of one file that is read alone."""
    with pytest.raises(RuleFileError) as caught:
        read(written(folder / "x.yaml", text))
    assert 1 == len(caught.value.faults)
    return caught.value.faults[0]


# --- one file --------------------------------------------------------------------------------------


def test_plain_data(tmp_path: Path) -> None:
    """A file becomes mappings, lists, texts and numbers."""
    document = read(written(tmp_path / "x.yaml", "a: [1, 2.5, true, null, 5m]\nb: {c: 'd'}\n1: e\n"))

    assert {"a": [1, 2.5, True, None, "5m"], "b": {"c": "d"}, "1": "e"} == document.data


def test_byte_order_mark_and_windows_lines(tmp_path: Path) -> None:
    """What editors of other systems write is read as well."""
    document = read(written(tmp_path / "x.yaml", b"\xef\xbb\xbfa: 1\r\nb: 2\r\n"))

    assert {"a": 1, "b": 2} == document.data
    assert (2, 4) == document.marks["b",]


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "the file is empty"),
        ("# only a comment\n", 1, 1, "the file is empty"),
        ("a: 1\n\tb: 2\n", 2, 1, "not YAML: found character '\\t' that cannot start any token"),
        ("a:\n\t- 1\n", 2, 1, "not YAML: found character '\\t' that cannot start any token"),
        ("a: 1\na: 2\n", 2, 1, "duplicate key 'a'"),
        ("a: 1\nb: {c: 1, d: 2, c: 3}\n", 2, 17, "duplicate key 'c'"),
        ("1: a\n'1': b\n", 2, 1, "duplicate key '1'"),
        ("a: &x {b: 1}\nc: *x\n", 1, 4, "anchors and aliases are not supported"),
        ("a: &x [*x]\n", 1, 4, "anchors and aliases are not supported"),
        ("? [a, b]\n: 1\n", 1, 3, "a key must be a word"),
        ("{a: b}: 1\n", 1, 1, "a key must be a word"),
        ("a: [1, 2\n", 2, 1, "not YAML: expected ',' or ']', but got '<stream end>'"),
        ("a: 'b\n", 2, 1, "not YAML: found unexpected end of stream"),
        ("a: b: c\n", 1, 5, "not YAML: mapping values are not allowed here"),
        ("a: 1\n---\nb: 2\n", 2, 1, "not YAML: but found another document"),
        ("a: @b\n", 1, 4, "not YAML: found character '@' that cannot start any token"),
        ("a: !!python/name:os.system x\n", 1, 4, "python/name"),
        ("a: !thing b\n", 1, 4, "not YAML: could not determine a constructor for the tag '!thing'"),
        ("a: !!int b\n", 1, 4, "'b' cannot be read"),
        ("a: 1\nb: 2024-99-99\n", 2, 4, "'2024-99-99' cannot be read"),
        ("a: 0b_\n", 1, 4, "'0b_' cannot be read"),
        ("a: !!int\n", 1, 4, "'' cannot be read"),
        ("a: !!bool maybe\n", 1, 4, "'maybe' cannot be read"),
        ("a: !!timestamp now\n", 1, 4, "'now' cannot be read"),
        ("a: 1\nb: \x00\n", 2, 4, "not YAML: special characters are not allowed"),
        ("a: \x1b[0m\n", 1, 4, "not YAML: special characters are not allowed"),
        ("a: *nothing\n", 1, 4, "not YAML: found undefined alias"),
        ("%YAML 9.0\n---\na: 1\n", 1, 1, "not YAML: found incompatible YAML document"),
        (b"a: 1\nb: \xff\n", 2, 1, "not UTF-8 text"),
        (b"\xff\xfea\x00", 1, 1, "not UTF-8 text"),
        ("[" * 5000, 1, 1, "nested too deeply"),
        ("a: " + "{b: " * 5000, 1, 1, "nested too deeply"),
        ("- " * 5000, 1, 1, "nested too deeply"),
        (" " * 2_000_001, 0, 0, "larger than 2000000 bytes"),
    ],
)
def test_broken_files(tmp_path: Path, text: str | bytes, line: int, column: int, message: str) -> None:
    """Broken text is one fault at the place where it breaks."""
    fault = fault_of(tmp_path, text)

    assert message in fault.message
    assert (line, column) == (fault.line, fault.column)


def test_hints_say_how_to_mend_it(tmp_path: Path) -> None:
    """A hint follows the message in parentheses."""
    assert f"{tmp_path / 'x.yaml'}:2:1: duplicate key 'a' (keep one of them)" == str(fault_of(tmp_path, "a: 1\na: 2\n"))


def test_several_faults_of_one_file(tmp_path: Path) -> None:
    """Duplicate keys and aliases are all reported at once."""
    with pytest.raises(RuleFileError) as caught:
        read(written(tmp_path / "x.yaml", "a: 1\na: 2\nb: &x [1]\nc: *x\nb: 3\n"))

    assert [2, 3, 5] == [fault.line for fault in caught.value.faults]


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    """A file that cannot be opened is a fault of the whole file."""
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(RuleFileError) as caught:
            read(path)
        assert str(caught.value).startswith(f"{path}: cannot be read: ")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "a",
                ": ",
                "\n",
                "- ",
                "[",
                "]",
                "{",
                "}",
                ",",
                "&x ",
                "*x",
                "!!int ",
                "'",
                '"',
                "|\n",
                ">-\n",
                "  ",
                "\t",
                "#",
                "? ",
                "1",
                "é",
                "\x07",
                "---\n",
                "<<",
                "2024-13-01",
                "%",
                "@",
                "~",
            ]
        ),
        max_size=30,
    ).map("".join)
)
def test_random_yaml_never_crashes(tmp_path: Path, text: str) -> None:
    """Whatever the text, it is read or refused; what is read has a place for every key."""
    path = written(tmp_path / "x.yaml", text)
    try:
        document = read(path)
    except RuleFileError as error:
        assert all(fault.line >= 1 and fault.column >= 1 for fault in error.faults)  # noqa: PT017
        return
    if isinstance(document.data, dict):
        assert all(((key, "key") in document.marks and (key,) in document.marks) for key in document.data)


@pytest.mark.parametrize("text", ["just text\n", "[1, 2]\n", "- a: 1\n", "3\n", "null\n", "---\n"])
def test_a_file_holds_keys_and_values(tmp_path: Path, text: str) -> None:
    """A list, a text or a number at the top is one fault."""
    with pytest.raises(RuleFileError, match="keys and values are needed here"):
        build(Signals, read(written(tmp_path / "x.yaml", text)))


# --- what the keys of a rule may be ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "needle", "message"),
    [
        (
            "severity: critical",
            "severty: critical",
            "severty",
            "unknown key 'severty' (did you mean severity or verify?)",
        ),
        ("    order: 1\n", "    ordr: 1\n", "ordr", "unknown key 'ordr' (did you mean order?)"),
        ("expect:", "expects:", "expects", "unknown key 'expects' (did you mean expect?)"),
        (
            "source: a test}\n  many",
            "sauce: a test}\n  many",
            "sauce",
            "unknown key 'sauce' (did you mean source or value?)",
        ),
        ("summary:", "<<: {a: b}\nsummary:", "<<", "unknown key '<<'"),
        ("title: KV", "titel: x\ntitle: KV", "titel", "unknown key 'titel' (did you mean title?)"),
        ("severity: critical", "severity: fatal", "fatal", "'fatal' is not one of 'critical', 'warning' or 'info'"),
        ("area: kv-cache\n", "area: kvcache\n", "kvcache", "'kvcache' is not one of 'prefill', 'decode'"),
        ("cause: kv-capacity", "cause: weather", "weather", "'weather' is not one of 'kv-capacity'"),
        ("direction: lower", "direction: down", "down\n", "'down' is not one of 'raise', 'lower'"),
        ("order: 2", "order: 4", "4\n", "4 is not one of 1, 2 or 3"),
        ("value: 0.85", "value: much", "much", "valid number"),
        ("value: 0.85", "value: [0.85]", "[0.85]", "valid number"),
        ("title: KV cache is full and requests are being preempted", "title: 5", "5\n", "valid string"),
        ("title: KV cache is full and requests are being preempted", "title: [a]", "[a]", "valid string"),
        ("explains: [ttft-high]", "explains: ttft-high", "ttft-high\n", "valid tuple"),
        ("explains: [ttft-high]", "explains: [Ttft High]", "Ttft High", "must be lower case words joined by hyphens"),
        ('references: ["https://docs.vllm.ai"]', "references: []", "[]", "at least 1 item"),
        ("for: 3m", "for: soon", "soon", "'soon' is not a duration such as 30s, 5m or 1h30m"),
        ("for: 3m", "for: 3 m", "3 m", "is not a duration"),
        ("for: 3m", "for: -3m", "-3m", "is not a duration"),
        ("for: 3m", "for: -3", "-3\n", "-3 is not a duration"),
        ("for: 3m", "for: .nan", ".nan", "nan is not a duration"),
        ("for: 3m", "for: .inf", ".inf", "inf is not a duration"),
        ("for: 3m", "for: true", "true", "True is not a duration"),
        ("for: 3m", "for:", None, "None is not a duration"),
        ("for: 3m", "for: 1.5m", "1.5m", "is not a duration"),
        ("for: 3m", "for: 30s1m", "30s1m", "is not a duration"),
        ("within: 10m", "within: 10", None, ""),
        ("within: 10m", "within: ten", "ten", "'ten' is not a duration"),
        ("id: kv-cache-saturated", "id: KV_Cache", "KV_Cache", "must be lower case words joined by hyphens"),
        ("  less: {", "  Less: {", "Less: {", "must be lower case letters, digits and underscores"),
        ("  less: {", "  a-b: {", "a-b", "must be lower case letters, digits and underscores"),
        ("severity: critical\n", "", "id:", "key 'severity' is missing"),
        ("when: kv_cache_usage > full and preemptions_per_minute > many\n", "", "id:", "key 'when' is missing"),
        ("for: 3m\n", "", "id:", "key 'for' is missing"),
        ("cause: kv-capacity\n", "", "id:", "key 'cause' is missing"),
        ("many: {value: 30, ", "many: {", "{unit: preemptions", "key 'value' is missing"),
        ("    why: More tokens fit.\n", "", "lever: kv_cache_dtype", "key 'why' is missing"),
        (
            "    value: fp8\n",
            "",
            "lever: kv_cache_dtype",
            "give value, or no_value with the reason why none can be computed",
        ),
        ("thresholds:\n", "thresholds: 5\nx:\n", "5\n", "valid dictionary"),
        (
            "- {signal: preemptions_per_minute, ",
            "- 5\n  - {signal: preemptions_per_minute, ",
            "5\n",
            "valid dictionary",
        ),
    ],
)
def test_broken_rules(tmp_path: Path, old: str, new: str, needle: str | None, message: str) -> None:
    """A fault of one key is reported at that key or its value; a missing key where its mapping begins."""
    folder = copied(tmp_path)
    path = changed(folder, SATURATED, old, new)
    if not message:
        load_catalogue([folder])
        return
    found = faults(folder)

    where = place(path, needle) if needle is not None else str(path)
    assert any(one.startswith(where) and message in one for one in found), found


def test_keys_stand_in_the_given_order(tmp_path: Path) -> None:
    """A key out of order is a fault that shows the order."""
    folder = copied(tmp_path)
    changed(folder, SATURATED, "for: 3m\n", "")
    path = changed(folder, SATURATED, "when: kv", "for: 3m\nwhen: kv")

    order = "id, title, area, cause, severity, maturity, references, thresholds, when, for, summary, supports, "
    order += "explains, levers, verify"
    assert [f"{place(path, 'when:')}: key 'when' stands behind 'for' (the order is {order})"] == faults(folder)


def test_order_and_contents_are_reported_together(tmp_path: Path) -> None:
    """A wrong key does not hide that another one is out of order."""
    folder = copied(tmp_path)
    changed(folder, TTFT_HIGH, "for: 5m\n", "fro: 5m\n")
    path = changed(folder, TTFT_HIGH, "title: First tokens come late\narea: prefill", "area: prefill\ntitle: 1")

    found = faults(folder)
    for needle in ("id:", "title:", "1\n", "fro"):
        assert any(one.startswith(place(path, needle)) for one in found), needle


# --- the other files ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "old", "new", "needle", "message"),
    [
        (
            "signals.yaml",
            "avg: num_requests_running}",
            "avgg: num_requests_running}",
            "avgg",
            "unknown key 'avgg' (did you mean avg?)",
        ),
        ("signals.yaml", "window: 2m", "window: often", "often", "'often' is not a duration"),
        (
            "signals.yaml",
            "avg: kv_cache_usage}",
            "avg: kv_cache_usage, max: kv_cache_usage}",
            '{title: "KV',
            "exactly one of avg, max",
        ),
        ("signals.yaml", ", avg: kv_cache_usage}", "}", '{title: "KV', "is needed, found none"),
        (
            "signals.yaml",
            "quantile: 0.99, of: time_to_first_token",
            "quantile: 0.99",
            '{title: "Time to first token, p99"',
            "quantile and of go together",
        ),
        ("signals.yaml", "quantile: 0.99", "quantile: 99", "99}".rstrip("}") + ", of", "less than 1"),
        (
            "signals.yaml",
            "rate: preemptions, times: 60",
            "avg: kv_cache_usage, per: preemptions",
            '{title: "Preemptions"',
            "per and or_gauge go with rate",
        ),
        (
            "signals.yaml",
            "  running: {",
            "  Running: {",
            "Running:",
            "must be lower case letters, digits and underscores",
        ),
        ("signals.yaml", "values: [stop, length]", "values: []", "[]", "at least 1 item"),
        ("signals.yaml", "signals:\n", "signal:\n", "signal:", "unknown key 'signal' (did you mean signals?)"),
        (
            "facts.yaml",
            'title: "Slots", type: number',
            'title: "Slots", type: integer',
            "integer",
            "'integer' is not one of 'number', 'flag' or 'text'",
        ),
        (
            "levers.yaml",
            "  - {releases: 0.8.0+, flag: --kv-cache-dtype, argument",
            "  - {releases: new, flag: --kv-cache-dtype, argument",
            "new",
            "'new' is not a vLLM release",
        ),
        (
            "levers.yaml",
            "{releases: 0.8.0+, flag: --max-num-seqs",
            "{releases: 0.10, flag: --max-num-seqs",
            "0.10",
            "0.1 is no text",
        ),
        ("metrics.yaml", "scope: server", "scope: cluster", "cluster", "'cluster' is not one of 'engine' or 'server'"),
        ("metrics.yaml", "v1: 0.9.2-0.33.0", "v1: 0.33.0-0.9.2", "0.33.0-0.9.2", "ends before it begins"),
        ("metrics.yaml", "block_size: 0.8.0-0.33.0", "block_size: 0.10", "0.10\n", "0.1 is no text"),
        (
            "metrics.yaml",
            "type: info",
            "type: information",
            "information",
            "is not one of 'counter', 'gauge', 'histogram' or 'info'",
        ),
        ("metrics.yaml", "prefixes: [", "prefix: [", "prefix: [", "unknown key 'prefix' (did you mean prefixes?)"),
    ],
)
def test_broken_catalogue_files(tmp_path: Path, name: str, old: str, new: str, needle: str, message: str) -> None:
    """Signals, facts, levers and metrics are checked like rules."""
    folder = copied(tmp_path)
    path = changed(folder, name, old, new)
    found = faults(folder)

    assert any(one.startswith(place(path, needle) + ": ") and message in one for one in found), found


# --- folders -----------------------------------------------------------------------------------------


def test_the_small_folder_is_valid() -> None:
    """The folder that the other tests break has no fault itself."""
    catalogue = load_catalogue([MINIMAL])

    assert ["kv-cache-saturated", "ttft-high"] == [rule.id for rule in catalogue.rules]
    assert 180.0 == catalogue.rule("kv-cache-saturated").for_
    assert catalogue.rule("ttft-high").symptom
    assert "finished_stop" in catalogue.signals
    assert "finished" not in catalogue.signals


def test_unknown_rules_are_key_errors() -> None:
    """Asking for a rule that does not exist raises ``KeyError``."""
    catalogue = load_catalogue([MINIMAL])

    for name in ("nothing", ""):
        with pytest.raises(KeyError):
            catalogue.rule(name)


def test_faults_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    """One broken file does not hide what is wrong in another, nor what is wrong between them."""
    folder = copied(tmp_path)
    changed(folder, SATURATED, "for: 3m", "for: soon")
    changed(folder, TTFT_HIGH, "when: ttft_p99", "when: ttft_p9")
    changed(folder, "signals.yaml", "avg: num_requests_running", "avg: num_requests_runing")
    written(folder / "matrix" / "fleet" / "empty.yaml", "")
    written(folder / "matrix" / "fleet" / "tabs.yml", "a:\n\tb: 1\n")

    found = faults(folder)
    assert found == sorted(found)
    for name, message in (
        ("kv-cache-saturated.yaml", "'soon' is not a duration"),
        ("ttft-high.yaml", "unknown name 'ttft_p9'"),
        ("signals.yaml", "no family 'num_requests_runing'"),
        ("empty.yaml", "the file is empty"),
        ("tabs.yml", "not YAML"),
    ):
        assert any(name in one and message in one for one in found), (name, found)


def test_what_is_no_folder(tmp_path: Path) -> None:
    """A path that is missing or a file is refused with a hint."""
    for path in (tmp_path / "nothing", MINIMAL / "signals.yaml"):
        with pytest.raises(RuleFileError, match=r"is not a folder \(--rules takes a folder"):
            load([path])


def test_an_empty_folder(tmp_path: Path) -> None:
    """A folder without the four files cannot be the only one."""
    with pytest.raises(RuleFileError, match="has no metrics, signals, facts and levers files"):
        load([tmp_path])


def test_a_broken_base_file_reports_everything(tmp_path: Path) -> None:
    """When nothing can be built on a file, the faults of the others are still told."""
    folder = copied(tmp_path)
    written(folder / "signals.yaml", "signals: [1]\n")
    changed(folder, SATURATED, "for: 3m", "for: soon")

    found = faults(folder)
    assert any("signals.yaml:1:10" in one for one in found), found
    assert any("'soon' is not a duration" in one for one in found), found


def test_overlay_replaces_a_rule(tmp_path: Path) -> None:
    """A rule of a later folder takes the place of the rule with its id; faults of the first are gone with it."""
    text = (MINIMAL / SATURATED).read_text(encoding="utf-8").replace("for: 3m", "for: 7m")
    written(tmp_path / "mine" / "kv-cache-saturated.yaml", text)
    catalogue = load_catalogue([MINIMAL, tmp_path / "mine"])

    assert ["kv-cache-saturated", "ttft-high"] == [rule.id for rule in catalogue.rules]
    assert 420.0 == catalogue.rule("kv-cache-saturated").for_


@pytest.mark.parametrize("where", ["mine.yaml", "deep/er/mine.yml", "matrix/fleet/mine.yaml"])
def test_overlay_adds_a_rule(tmp_path: Path, where: str) -> None:
    """A rule of a later folder is added, from ``matrix/`` if it has one, else from anywhere below it."""
    text = (MINIMAL / TTFT_HIGH).read_text(encoding="utf-8").replace("id: ttft-high", "id: mine")
    written(tmp_path / "overlay" / where, text)

    rules = load_catalogue([MINIMAL, tmp_path / "overlay"]).rules
    assert ["kv-cache-saturated", "mine", "ttft-high"] == [rule.id for rule in rules]


def test_overlay_replaces_and_adds_signals_facts_and_levers(tmp_path: Path) -> None:
    """Later definitions win, one by one; what they do not name stays."""
    overlay = tmp_path / "overlay"
    written(
        overlay / "signals.yaml",
        "signals:\n"
        "  running: {title: Mine, unit: requests, window: 1m, avg: num_requests_running}\n"
        "  running_max: {title: Most, unit: requests, max: num_requests_running}\n",
    )
    written(overlay / "facts.yaml", "facts:\n  slo.ttft_p99: {title: Mine, type: number, unit: s, default: 2.0}\n")
    written(overlay / "levers.yaml", "levers:\n  prayer: {title: Prayer, action: Hope.}\n")
    catalogue = load_catalogue([MINIMAL, overlay])

    assert ("Mine", 60.0) == (catalogue.signals["running"].title, catalogue.signals["running"].window)
    assert {"running_max", "ttft_tail"} <= set(catalogue.signals)
    assert (2.0, "requests") == (catalogue.facts["slo.ttft_p99"].default, catalogue.facts["max_num_seqs"].unit)
    assert {"prayer", "max_num_seqs", "kv_cache_dtype", "replicas"} == set(catalogue.levers)


def test_a_fault_in_an_overlay_names_its_file(tmp_path: Path) -> None:
    """The place is in the folder that the user wrote."""
    path = written(
        tmp_path / "mine" / "signals.yaml", 'signals:\n  x: {title: X, unit: s, expr: "ttft_p9 + ttft_p50"}\n'
    )

    assert [f"{place(path, 'ttft_p9 ')}: unknown name 'ttft_p9' (did you mean ttft_p99 or ttft_p50?)"] == faults(
        MINIMAL, tmp_path / "mine"
    )


def test_one_id_twice_in_one_folder(tmp_path: Path) -> None:
    """Two files of one folder with the same id are a fault: one of them would silently do nothing."""
    folder = copied(tmp_path)
    other = written(folder / "matrix" / "decode" / "ttft-high.yaml", (MINIMAL / TTFT_HIGH).read_text(encoding="utf-8"))

    first, second = place(other, "ttft-high"), folder / TTFT_HIGH
    found = faults(folder)
    assert 1 == len(found)
    assert "rule 'ttft-high' is already in " in found[0]
    assert first in found[0] or str(second) in found[0]


def test_a_file_without_permission(tmp_path: Path) -> None:
    """A file that may not be read is one fault beside the others."""
    folder = copied(tmp_path)
    (folder / TTFT_HIGH).chmod(0)

    with nobody(tmp_path):
        assert any("cannot be read: Permission denied" in one for one in faults(folder))


def test_models_are_frozen() -> None:
    """What was loaded cannot be changed by accident."""
    rule = load_catalogue([MINIMAL]).rule("ttft-high")

    assert isinstance(rule, Rule)
    with pytest.raises(ValueError, match="frozen"):
        rule.title = "x"  # type: ignore[misc]


def test_facts_may_have_dots(tmp_path: Path) -> None:
    """Objectives are facts named ``slo.<signal>``."""
    path = written(tmp_path / "facts.yaml", "facts:\n  slo.x: {title: X, type: number, unit: s}\n")

    assert {"slo.x"} == set(build(Facts, read(path)).facts)
