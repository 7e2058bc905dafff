"""Which findings are silenced."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from tests.api.apps import fleet
from tests.engines import END, shipped

from palanca.model import Diagnosis, Silenced
from palanca.notify.silences import Marker, Matcher, MutedAlert, Muting, Silence
from palanca.render.document import document


def silence(name: str, *matchers: Matcher, ends: float = END + 60) -> Silence:
    return Silence(name, END - 60, ends, matchers)


def marked(*silences: Silence, alerts: tuple[MutedAlert, ...] = (), now: float = END) -> Diagnosis:
    return Marker(shipped().rules, {"kv-overcommitted"}, Muting(silences, alerts), now).marked(fleet())


def found(diagnosis: Diagnosis) -> dict[tuple[str, str], Silenced]:
    return {
        (report.target.get("instance"), finding.rule): finding.silenced
        for report in diagnosis.targets
        for finding in report.findings
        if finding.silenced is not None
    }


@pytest.mark.parametrize(
    ("matcher", "expected"),
    [
        (Matcher("model_name", "llama"), True),
        (Matcher("model_name", "qwen"), False),
        (Matcher("model_name", "qwen", equal=False), True),
        (Matcher("model_name", "ll.*|x", regex=True), True),
        (Matcher("model_name", "lla", regex=True), False),
        (Matcher("model_name", "lla.+", regex=True, equal=False), False),
        (Matcher("model_name", "(?i)LLAMA", regex=True), True),
        (Matcher("gone", ""), True),
        (Matcher("gone", ".+", regex=True), False),
        (Matcher("gone", ".*", regex=True), True),
        (Matcher("model_name", r"l{2}ama", regex=True), True),
        (Matcher("text", "a.b", regex=True), True),
    ],
)
def test_matchers(matcher: Matcher, expected: bool) -> None:
    """As Alertmanager's: the whole value, and a missing label is empty."""
    assert expected is matcher.matches({"model_name": "llama", "text": "a\nb"})


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+b", "(a|a)*b", "(x{1,9}){9}", ".*.*.*.*x", "a?" * 30 + "a" * 30, "(a|a)" * 30 + "b", "a" * 1001,
        "[[:alpha:]]+", r"\pL", "(?s).", "(", "a{9999999999999}",
    ],
)  # fmt: skip
def test_what_is_not_tried(pattern: str) -> None:
    """Expressions that Python does not know, means otherwise, or could take for ever: it cannot be told."""
    begin = time.perf_counter()
    assert Matcher("a", pattern, regex=True).matches({"a": "a" * 150}) is None
    assert Matcher("a", ".*", regex=True).matches({"a": "a" * 10_000}) is None
    assert time.perf_counter() - begin < 1
    assert not silence("s", Matcher("a", pattern, regex=True, equal=False)).mutes({"a": "a"}, END)


def test_the_worst_that_is_tried() -> None:
    """Is over soon."""
    begin = time.perf_counter()
    assert Matcher("a", ".*.*.*x", regex=True).matches({"a": "a" * 200}) is False
    assert time.perf_counter() - begin < 1


def test_a_silence_of_a_rule() -> None:
    """Marks its findings at all engines, with the id and the end."""
    made = marked(silence("s1", Matcher("alertname", "VllmKvCacheSaturated")))
    assert {"kv-cache-saturated"} == {rule for _, rule in found(made)}
    assert {Silenced(("s1",), END + 60)} == set(found(made).values())


def test_several_silences() -> None:
    """All are named; the last one counts."""
    one = silence("s1", Matcher("palanca_rule", "kv-.*", regex=True))
    two = silence("s0", Matcher("severity", "critical"), Matcher("instance", "vllm-0:8000"), ends=END + 600)
    made = found(marked(one, two))
    assert Silenced(("s0", "s1"), END + 600) == made["vllm-0:8000", "kv-cache-saturated"]
    assert Silenced(("s1",), END + 60) == made["vllm-3:8000", "kv-cache-saturated"]


def test_pushed_alerts_have_other_names() -> None:
    """The silence of an exported name does not mute them, nor the other way round."""
    rule = "kv-cache-saturated"
    of = Marker(shipped().rules, {rule}, Muting((silence("s", Matcher("alertname", "PalancaKvCacheSaturated")),)), END)
    assert {rule} == {name for _, name in found(of.marked(fleet()))}
    assert {} == found(marked(silence("s", Matcher("alertname", "PalancaKvCacheSaturated"))))


def test_what_alertmanager_itself_says() -> None:
    """Of an alert whose labels palanca does not know: by its rule and its engine."""
    muted = MutedAlert({"palanca_rule": "kv-cache-saturated", "instance": "vllm-0:8000", "region": "x"}, ("s1",))
    by_region = silence("s1", Matcher("region", "x"))
    assert {("vllm-0:8000", "kv-cache-saturated")} == set(found(marked(by_region, alerts=(muted,))))
    assert {} == found(marked(by_region))
    assert {} == found(marked(silence("s2", Matcher("region", "x")), alerts=(muted,)))


def test_time() -> None:
    """Only while a silence is in force; one without matchers mutes nothing."""
    all_ = silence("s1", Matcher("palanca_rule", ".+", regex=True))
    assert found(marked(all_))
    assert marked(all_, now=END + 61) is fleet()
    assert marked(all_, now=END - 61) is fleet()
    assert {} == found(marked(silence("s1")))
    assert marked() is fleet()


def test_a_rule_that_is_gone() -> None:
    """A finding of a rule that a reload has removed is left as it is."""
    made = Marker((), (), Muting((silence("s1", Matcher("job", "vllm")),)), END).marked(fleet())
    assert {} == found(made)


def test_together() -> None:
    """Alertmanagers of a cluster say the same; one that lacks something takes nothing away."""
    one, two = silence("s1", Matcher("a", "b")), silence("s2", Matcher("a", "b"))
    alert = MutedAlert({"a": "b"}, ("s1",))
    made = Muting.together([Muting((one,), (alert,)), Muting((one, two)), Muting()])
    assert Muting((one, two), (alert,)) == made


def test_in_the_document() -> None:
    """``silenced`` is null, or says by what and until when."""
    report = replace(fleet().targets[0], findings=fleet().targets[0].findings[:1])
    finding = replace(report.findings[0], silenced=Silenced(("b", "a\ud800"), 1800000000.0))
    shown = document(replace(fleet(), targets=(replace(report, findings=(finding,)),)))
    (one,) = shown.targets[0].findings
    assert one.silenced is not None
    assert (("b", "a�"), "2027-01-15T08:00:00Z") == (one.silenced.by, one.silenced.until)
    assert document(fleet()).targets[0].findings[0].silenced is None
