"""Messages for Slack: what they say, and that no text from outside breaks a limit, formats or pings."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.render.builders import NOW, saturated, target
from tests.slack import check_message, units

from palanca.model import TargetReport
from palanca.render import slack
from palanca.render.groups import Group
from palanca.render.notice import Links, Notice, Places, Proposal, Remark, headline, links_for, of_group
from palanca.render.words import target_names

NAMES = target_names([target(index) for index in range(8)])


def notice(**changes: Any) -> Notice:  # noqa: ANN401  fields of a notice
    """Three of eight engines with a full KV cache."""
    members = tuple(
        (TargetReport(target(index), "critical", None, {}, {}, (), (), (), {}), saturated()) for index in range(3)
    )
    made = of_group(Group(members), key="k", names=NAMES, total=8, now=NOW, source="eu")
    places = Places("https://palanca.example.com", "https://grafana/d/x", "https://prometheus", "https://am")
    made = replace(
        made,
        links=links_for(
            places, made.rule, made.labels, "vllm:kv > 0.8", alert={"alertname": "Vllm"}, acknowledged=True
        ),
    )
    return replace(made, **changes)


def said(payload: slack.Payload) -> str:
    """All texts of a message."""
    return json.dumps(payload, ensure_ascii=False)


def test_what_a_message_says() -> None:
    """What, where, evidence, the change with how it was computed and what it costs, and links as text."""
    payload = slack.message(notice())
    check_message(payload)
    assert (
        "Critical: KV cache is full and requests are being preempted (llama-3-8b, 3 of 8 engines)"
        == (payload["blocks"][0]["text"]["text"])
    )
    assert [slack.COLOURS["critical"]] == [one["color"] for one in payload["attachments"]]
    text = said(payload)
    for part in (
        "3 of 8 engines", "`llama-3-8b @ 10.0.0.5:8000`", "KV cache usage 0.97 &gt; 0.85",
        "--kv-cache-dtype auto -&gt; fp8",
        "*Computed* no arithmetic", "*Costs* TTFT up by 2.5-5 %", "`--max-num-seqs 256 -&gt; 96`", "*Since*",
        "|Dashboard>", "|PromQL>", "<https://palanca.example.com/rules/kv-cache-saturated|Runbook>", "|Silence>",
        "<https://palanca.example.com/?model=llama-3-8b|Diagnosis>",
    ):  # fmt: skip
        assert part in text, part


def test_resolved_says_how_long_it_lasted() -> None:
    """In green, with the duration."""
    payload = slack.message(notice(state="resolved", since=NOW, ended=NOW + 1380.0))
    assert "Resolved after 23 min." in said(payload)
    assert payload["attachments"][0]["color"] == slack.RESOLVED


def test_a_symptom_now() -> None:
    """What explains it stands there, and no change."""
    text = said(slack.message(notice(explained_by=("kv-cache-saturated",))))
    assert "Explained by `kv-cache-saturated` now" in text
    assert "*Change*" not in text


def test_remarks_and_symptoms() -> None:
    """They are shown."""
    text = said(slack.message(notice(remarks=(Remark(NOW, "ana looks after it"),), symptoms=("TTFT is high",))))
    assert "2026-03-01 14:03:30 UTC: ana looks after it" in text
    assert "*Explains*\\n• TTFT is high" in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a & b < c", "a &amp; b &lt; c"),
        ("<!channel>", "&lt;!channel&gt;"),
        ("*bold* _it_ ~no~ `code`", "\u2217bold\u2217 \uff3fit\uff3f \u223cno\u223c \u02cbcode\u02cb"),
        ("max_num_seqs 2*3", "max_num_seqs 2*3"),
        ("a\nb\u202e", "a\\nb\\u202e"),
        ("\ud800", "\\ud800"),
    ],
)
def test_prose(text: str, shown: str) -> None:
    """Nothing in it is formatted, mentions somebody or turns the direction of writing."""
    assert shown == slack.prose(text, 100)


def test_cutting_counts_what_is_sent() -> None:
    """An entity is five characters, an emoji two, and none is cut in two."""
    assert "&amp;&amp;…" == slack.escaped("&" * 9, 12)
    assert "&amp;&amp;" == slack.escaped("&" * 2, 10)
    assert "😀…" == slack.escaped("😀" * 9, 4)
    assert 150 >= units(slack.message(notice(title="&😀" * 500))["blocks"][0]["text"]["text"]) > 140


def test_links_that_cannot_be_shown_are_left_out() -> None:
    """Too long, or no HTTP address; a bar and brackets are encoded."""
    assert slack.link("javascript:alert(1)", "x") is None
    assert slack.link("https://a/" + "b" * 3000, "x") is None
    assert "<https://a/?q=%7C%3E%3C&amp;b=%20|x>" == slack.link("https://a/?q=|><&b= ", "x")
    long = Links(*("https://a/" + letter * 1400 for letter in "abcde"))
    check_message(slack.message(notice(links=long)))
    assert [2, 2, 1] == [one["text"]["text"].count("<http") for one in slack._links(long)]


def test_a_digest_and_a_summary() -> None:
    """The worst first; what is beyond twenty is counted."""
    over = notice(state="resolved", since=NOW, ended=NOW + 60)
    made = slack.digest([over, notice(severity="warning"), notice()])
    check_message(made)
    assert "Digest: 2 problems, 1 resolved" == made["text"]
    order = re.findall(r"• (\w+):", said(made))
    assert ["Critical", "Warning", "Resolved"] == order
    many = slack.summary([over] * 50)
    check_message(many)
    assert "and 30 more" in said(many)
    assert "50 problems came and went before this could be told" == many["text"]


def test_a_test_message() -> None:
    """Nobody takes it for a problem."""
    made = slack.trial("ops", NOW)
    check_message(made)
    assert "Test message of palanca: nothing is wrong" == made["text"]


@pytest.mark.parametrize(
    "name", ["x" * 10_000, "&" * 10_000, "😀" * 10_000, "<!channel>" * 1000, "\n" * 10_000, "\u202e" * 5000]
)
def test_long_and_hostile_names(name: str) -> None:
    """A model name of 10,000 characters everywhere it can stand."""
    evil = notice(
        title=name, what=name, where=name, labels={"model_name": name}, engines=(name,) * 20, evidence=(name,) * 30,
        proposal=Proposal(*(name,) * 8, verify=(name,) * 9), alternatives=(name,) * 9, symptoms=(name,) * 9,
        source=name, remarks=(Remark(NOW, name),) * 9, reason=name, state="resolved", since=NOW, ended=NOW,
    )  # fmt: skip
    for payload in (
        slack.message(evil), slack.message(replace(evil, state="firing"), (name,) * 9), slack.reply(evil, (name,) * 9),
        slack.digest([evil] * 60), slack.summary([evil] * 60), slack.bare(slack.plain(evil)), slack.trial(name, NOW),
    ):  # fmt: skip
        check_message(payload)


HOSTILE = st.text(
    st.sampled_from([*"<>&!@#|*_~`:/\\\n\r\t\0 aA1.-", "\u202e", "\u200f", "😀", "\ud800", "é"]) | st.characters(),
    max_size=60,
).map(lambda text: text * 7) | st.sampled_from(
    ["<!channel>", "<@U012345>", "<!here|x>", "<https://evil|click>", "&lt;!channel&gt;", "@channel", "x" * 9999, ""]
)  # fmt: skip
TEXTS = st.lists(HOSTILE, max_size=6).map(tuple)
TIMES = st.none() | st.floats(0, 4e9)
NOTICES = st.builds(
    Notice, key=HOSTILE, state=st.sampled_from(["firing", "worsened", "resolved"]),
    severity=st.sampled_from(["critical", "warning", "info"]), title=HOSTILE, what=HOSTILE, where=HOSTILE,
    labels=st.dictionaries(HOSTILE, HOSTILE, max_size=5), affected=st.integers(0, 10**6), total=st.integers(0, 10**6),
    engines=TEXTS, evidence=TEXTS, alternatives=TEXTS, since=TIMES, ended=TIMES, at=st.floats(0, 4e9), rule=HOSTILE,
    cause=HOSTILE, confidence=HOSTILE, source=HOSTILE, symptoms=TEXTS, explained_by=TEXTS, reason=HOSTILE,
    remarks=st.lists(st.builds(Remark, st.floats(0, 4e9), HOSTILE), max_size=4).map(tuple),
    proposal=st.none() | st.builds(Proposal, *[HOSTILE] * 8, TEXTS),
    links=st.builds(Links, *(st.none() | HOSTILE | HOSTILE.map("https://a/{}".format) for _ in range(5))),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(NOTICES, TEXTS)
def test_random_notices_keep_every_limit(made: Notice, news: tuple[str, ...]) -> None:
    """And mention nobody."""
    for payload in (
        slack.message(made, news), slack.reply(made, news), slack.digest([made] * 25), slack.summary([made]),
        slack.bare(slack.plain(made, news)), slack.trial(made.title, 0.0),
    ):  # fmt: skip
        check_message(payload)
        json.dumps(payload).encode()
    assert headline(made)
