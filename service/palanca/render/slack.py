"""Notices as messages for Slack: Block Kit, coloured by an attachment. Pure.

Every limit of Slack is kept by construction: texts are cut before they are put into a block, and counted as Slack
counts them, escaped and in UTF-16. Nothing from outside becomes a mention, a link or formatting. Links are text: a
button would send an interaction that somebody has to acknowledge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from palanca.quantities import moment, time_span
from palanca.render.notice import ending, headline
from palanca.render.words import ELLIPSIS, encodable, plural, printable

if TYPE_CHECKING:
    from palanca.render.notice import Links, Notice, Proposal

Payload = dict[str, Any]

HEADER = 150
SECTION = 3000
FIELDS = 10
FIELD = 2000
CONTEXT = 10
BLOCKS = 50
URL = 3000
FALLBACK = 2000
"""Slack asks for at most 4,000 characters of text."""
ALL_TEXT = 12_000
"""Slack refuses more than 13,200 characters in the blocks of a message (``msg_blocks_too_long``)."""

SHORT, LONG, NAME = 300, 1000, 150
OTHER_NEWS = 5
MANY = 20
"""Notices that a digest or a summary names; the others are counted."""

COLOURS = {"critical": "#c0392b", "warning": "#e67e22", "info": "#3498db"}
RESOLVED = "#2e9e5b"
TEST = "#7f8c8d"

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_MARKS = {"*": "\u2217", "_": "\uff3f", "~": "\u223c", "`": "\u02cb"}
"""Letters that look like those that Slack takes for formatting, and that it has no escape for."""
_FORMATS = re.compile(r"(?<![A-Za-z0-9])[*_~]|[*_~](?![A-Za-z0-9])|`")
_HTTP = re.compile(r"https?://", re.IGNORECASE)
_URL_SAFE = "/:?#[]@!$&'()*+,;=%-._~"


# --- text --------------------------------------------------------------------------------------------


def length(text: str) -> int:
    """Characters as Slack counts them: UTF-16 code units."""
    return len(text) + sum(letter > "\uffff" for letter in text)


def escaped(text: str, limit: int) -> str:
    """Escape ``& < >`` and cut the text to so many characters, never within an entity."""
    pieces = [_ENTITIES.get(letter, letter) for letter in encodable(text)]
    if sum(map(length, pieces)) <= limit:
        return "".join(pieces)
    ends = accumulate(map(length, pieces))
    return "".join(pieces[: sum(end < limit for end in ends)]) + ELLIPSIS


def prose(text: str, limit: int) -> str:
    """A text in which Slack finds nothing to format, link or mention."""
    return escaped(_FORMATS.sub(lambda found: _MARKS[found[0]], printable(text[: 2 * limit])), limit)


def code(text: str, limit: int) -> str:
    """A text between backticks."""
    plain = printable(text[: 2 * limit]).replace("`", _MARKS["`"]).strip()
    return f"`{escaped(plain, limit - 2) or '-'}`"


def _block(text: str, limit: int) -> str:
    """A text between three backticks, which no text can end."""
    plain = printable(text[: 2 * limit]).replace("`", _MARKS["`"]).strip()
    return f"```{escaped(plain, limit - 6) or '-'}```"


def link(url: str, label: str) -> str | None:
    """A link as text; None where it is no HTTP address or longer than Slack allows."""
    if not _HTTP.match(url):
        return None
    safe = quote(encodable(url), safe=_URL_SAFE).replace("&", "&amp;")
    made = f"<{safe}|{prose(label, NAME).replace('|', '/')}>"
    return None if length(safe) > URL or length(made) > SECTION else made


# --- blocks ------------------------------------------------------------------------------------------


def _text(text: str) -> Payload:
    # Verbatim: nothing that looks like a channel, a name or an address becomes a link of its own.
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _header(text: str) -> Payload:
    return {"type": "header", "text": {"type": "plain_text", "text": escaped(text, HEADER) or "-", "emoji": False}}


def _section(text: str) -> Payload:
    return {"type": "section", "text": _text(text)}


def _fields(pairs: Iterable[tuple[str, str]]) -> Payload:
    shown = [_text(f"*{label}*\n{text}") for label, text in pairs][:FIELDS]
    return {"type": "section", "fields": shown}


def _context(texts: Sequence[str]) -> Payload:
    return {"type": "context", "elements": [_text(one) for one in texts[:CONTEXT]]}


def _bounded(blocks: Sequence[Payload], room: int) -> list[Payload]:
    """As many blocks as Slack takes, and as there is room for, in characters."""
    kept: list[Payload] = []
    for block in blocks[:BLOCKS]:
        room -= _size(block)
        if room < 0:
            break
        kept.append(block)
    return kept


def _size(value: Any) -> int:  # noqa: ANN401  a part of a payload
    if isinstance(value, dict):
        return sum(_size(one) if key != "text" or isinstance(one, dict) else length(one) for key, one in value.items())
    return sum(map(_size, value)) if isinstance(value, list) else 0


def _payload(title: str, fallback: str, colour: str, blocks: Sequence[Payload], last: Payload | None = None) -> Payload:
    head = _header(title)
    text = escaped(fallback, FALLBACK) or "-"
    room = ALL_TEXT - _size(head) - (0 if last is None else _size(last))
    kept = _bounded(blocks, room)[: BLOCKS - 1] + ([] if last is None else [last])
    return {
        "text": text,
        "blocks": [head],
        "attachments": [{"color": colour, "fallback": text, "blocks": kept or [_section("-")]}],
    }


# --- messages ----------------------------------------------------------------------------------------


def colour(notice: Notice) -> str:
    """Colour of the bar beside a message."""
    return RESOLVED if notice.resolved else COLOURS[notice.severity]


def message(notice: Notice, news: Sequence[str] = ()) -> Payload:
    """Write one notice; ``news`` is what has changed since it was last told."""
    blocks: list[Payload] = []
    if news:
        blocks.append(_section("\n".join(f"*{prose(one, SHORT)}*" for one in news[:OTHER_NEWS])))
    elif notice.resolved:
        blocks.append(_section(f"*{prose(ending(notice), SHORT)}*"))
    if notice.explained_by:
        blocks.append(_section(f"Explained by {_codes(notice.explained_by)} now; see there what to change."))
    if notice.silenced is not None and not notice.resolved:
        blocks.append(_section(f"Silenced in Alertmanager until {moment(notice.silenced)}: nobody is called."))
    if notice.what:
        blocks.append(_section(prose(notice.what, LONG)))
    blocks.append(_fields(_facts(notice)))
    if notice.evidence:
        blocks.append(_section("*Evidence*\n" + "\n".join(f"• {prose(one, SHORT)}" for one in notice.evidence[:8])))
    if notice.proposal is not None and not notice.explained_by:
        blocks += _change(notice.proposal, notice.alternatives)
    if notice.symptoms:
        blocks.append(_section("*Explains*\n" + "\n".join(f"• {prose(one, SHORT)}" for one in notice.symptoms[:8])))
    if notice.remarks:
        blocks.append(_context([f"{moment(one.time)}: {prose(one.text, SHORT)}" for one in notice.remarks[-5:]]))
    blocks += _links(notice.links)
    foot = " · ".join(filter(None, [
        notice.rule and code(notice.rule, NAME), notice.cause and prose(notice.cause, NAME),
        notice.confidence and f"confidence {prose(notice.confidence, NAME)}",
        notice.source and f"source {code(notice.source, NAME)}",
        "" if notice.episode is None else f"episode {notice.episode}", f"as of {moment(notice.at)}",
    ]))  # fmt: skip
    return _payload(headline(notice), plain(notice, news), colour(notice), blocks, _context([foot]))


def _facts(notice: Notice) -> list[tuple[str, str]]:
    where = prose(notice.where or "-", SHORT)
    if len(notice.engines) > 1 or (notice.engines and notice.engines[0] != notice.where):
        named = [code(one, NAME) for one in notice.engines[:5]]
        more = notice.affected - len(named)
        where += "\n" + "\n".join(named) + (f"\nand {more} more" if more > 0 else "")
    pairs = [("Where", where)]
    if notice.since is not None:
        lasted = notice.lasted_s
        began = moment(notice.since)
        pairs.append(("Since", began if lasted is None else f"{began}\nfor {time_span(lasted)}"))
    shown = [(name, value) for name, value in notice.labels.items() if value][:8]
    if shown:
        pairs.append(("Labels", "\n".join(f"{prose(name, 60)} {code(value, NAME)}" for name, value in shown)))
    return pairs


def _codes(texts: Sequence[str]) -> str:
    return ", ".join(code(one, NAME) for one in texts[:5])


def _change(proposal: Proposal, alternatives: Sequence[str]) -> list[Payload]:
    lines = [
        f"*Change*{f' ({prose(proposal.risk, 20)} risk)' if proposal.risk else ''}",
        _block(proposal.change, SHORT),
    ]
    pairs = [
        ("Set", code(proposal.argument, SHORT) if proposal.argument and proposal.argument != proposal.change else ""),
        ("Computed", prose(proposal.computed_from, SHORT)),
        ("Why", prose(proposal.why, SHORT)),
        ("Effect", prose(proposal.effect, SHORT)),
        ("Costs", prose(proposal.trade_off, SHORT)),
        ("Applies to", prose(proposal.applies_to, SHORT)),
        ("Verify", prose("; ".join(proposal.verify), SHORT)),
    ]
    blocks = [_section("\n".join([*lines, *(f"*{label}* {text}" for label, text in pairs if text)]))]
    if alternatives:
        blocks.append(_context([f"Or, one at a time: {', '.join(code(one, NAME) for one in alternatives[:4])}"]))
    return blocks


def _links(links: Links) -> list[Payload]:
    """Links in as few sections as hold them."""
    made: list[str] = []
    for label, url in links.named():
        one = link(url, label)
        if one is None:
            continue
        if made and length(made[-1]) + length(one) + 3 <= SECTION:
            made[-1] += f" · {one}"
        else:
            made.append(one)
    return [_section(one) for one in made]


def plain(notice: Notice, news: Sequence[str] = ()) -> str:
    """One or two lines for where no blocks are shown; not escaped."""
    lines = [headline(notice), *(printable(one) for one in news[:OTHER_NEWS])]
    if not news and notice.resolved:
        lines.append(ending(notice))
    if notice.proposal is not None and not notice.resolved:
        lines.append(f"Change: {printable(notice.proposal.change)}")
    return "\n".join(one[:LONG] for one in lines)


def bare(text: str) -> Payload:
    """A message without blocks, for one that Slack does not take in its usual form."""
    return {"text": prose_lines(text, FALLBACK)}


def prose_lines(text: str, limit: int) -> str:
    """Lines in which Slack finds nothing to format."""
    made = "\n".join(prose(line, LONG) for line in text.split("\n")[:MANY])
    return (made if length(made) <= limit else prose(text, limit)).strip() or "-"


def reply(notice: Notice, news: Sequence[str]) -> Payload:
    """Write what has changed, for the thread of a message."""
    return {"text": prose_lines("\n".join([*news[:OTHER_NEWS]] or [headline(notice)]), FALLBACK)}


def digest(notices: Sequence[Notice]) -> Payload:
    """Write several notices in one message, the worst first."""
    firing = [one for one in notices if not one.resolved]
    order = sorted(notices, key=lambda one: (one.resolved, list(COLOURS).index(one.severity)))
    counts = [plural(len(firing), "problem"), f"{len(notices) - len(firing)} resolved"]
    title = f"Digest: {', '.join(counts)}"
    worst = min((one.severity for one in firing), key=list(COLOURS).index, default=None)
    return _payload(title, title, RESOLVED if worst is None else COLOURS[worst], _listed(order, title))


def summary(notices: Sequence[Notice]) -> Payload:
    """Write what came and went before it could be told."""
    title = f"{plural(len(notices), 'problem')} came and went before this could be told"
    order = sorted(notices, key=lambda one: one.since or 0.0, reverse=True)
    return _payload(title, title, RESOLVED, _listed(order, title))


def _listed(notices: Sequence[Notice], title: str) -> list[Payload]:
    blocks = []
    for one in notices[:MANY]:
        span = "" if one.lasted_s is None else f", {time_span(one.lasted_s)}"
        since = "" if one.since is None else f"\n{moment(one.since)}{span}"
        change = "" if one.proposal is None or one.resolved else f"\n{code(one.proposal.change, SHORT)}"
        blocks.append(_section(f"• {prose(headline(one), SHORT)}{since}{change}"))
    more = len(notices) - MANY
    return [*blocks, _section(f"and {more} more")] if more > 0 else blocks or [_section(prose(title, SHORT))]


def trial(receiver: str, now: float) -> Payload:
    """Write a message that cannot be taken for a problem."""
    title = "Test message of palanca: nothing is wrong"
    told = f"Sent by {code('palanca notify test', NAME)} to the receiver {code(receiver, NAME)} at {moment(now)}."
    return _payload(title, title, TEST, [_section(told)])
