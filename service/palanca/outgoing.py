"""What is on its way to people: what shall be told, what has been told, and the difference. Pure.

Nobody is sent events. For each receiver and problem there is one *line* with what is so now (a ``Notice``) and what was
told last (``Told``); what is to be sent follows from both. So nothing is lost or sent twice however often the process
dies, and what came and went while nobody could be reached is summed up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from palanca.episodes import Episode
from palanca.model import SEVERITY_ORDER, Diagnosis, Severity, Target
from palanca.render.notice import Notice, Remark, ending
from palanca.render.words import printable

StepKind = Literal["post", "update", "reply"]
SPREAD = 2
"""Engines times so many are news: told again where messages cannot be updated, and in the thread."""


# --- what there is to tell -------------------------------------------------------------------------


@dataclass(frozen=True)
class Standing:
    """An episode that fires, or one that was just resolved and why."""

    id: int
    episode: Episode
    reason: str = ""
    acknowledged: str = ""


@dataclass(frozen=True)
class Look:
    """What a source shows at ``now`` (unix seconds). ``engines`` are those that are there.

    ``blind`` says since when the source cannot be read, and why; then nothing else is known. ``diagnosis`` is the one
    that this was made of, None where a source is gone for good.
    """

    source: str
    now: float
    standing: tuple[Standing, ...] = ()
    engines: tuple[Target, ...] = ()
    diagnosis: Diagnosis | None = None
    blind: tuple[float, str] | None = None


@dataclass(frozen=True)
class Addressee:
    """Who shall be told, not before ``due`` (unix seconds); ``digest``: together with others."""

    receiver: str
    due: float
    digest: bool = False


@dataclass(frozen=True)
class Posting:
    """A notice and its addressees. Whoever was told of the problem before is told of its end in any case."""

    notice: Notice
    to: tuple[Addressee, ...]


Tell = Callable[[Look], Sequence[Posting]]
"""What people shall be told of a look. Whatever was told of this source and is not among it is over."""


# --- what was told -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """What a receiver knows. ``shown`` is the fingerprint of what its message shows, if it can be changed."""

    shown: str
    resolved: bool
    severity: Severity
    affected: int
    remarks: int

    @classmethod
    def of(cls, notice: Notice) -> Told:
        """All of a notice."""
        loud = sum(one.loud for one in notice.remarks)
        return cls(notice.fingerprint, notice.resolved, notice.severity, notice.affected, loud)


@dataclass(frozen=True)
class Place:
    """Where a message stands: a channel of Slack, and the time stamp that names it there."""

    channel: str
    ts: str


@dataclass(frozen=True)
class Line:
    """One problem for one receiver, as stored. Times are unix seconds.

    ``number`` counts the times that the problem came back. ``version`` grows with the notice. ``attempt`` is the key of
    a message that was being sent when the process died: it may have arrived.
    """

    id: int
    receiver: str
    number: int
    version: int
    notice: Notice
    told: Told | None
    place: Place | None
    due: float
    digest: bool
    tries: int
    created: float
    attempt: str | None = None
    attempted: float | None = None


@dataclass(frozen=True)
class Step:
    """The next thing to send for a line. ``told`` is what the receiver knows afterwards."""

    kind: StepKind
    notice: Notice
    told: Told
    news: tuple[str, ...] = ()


def news(told: Told, notice: Notice) -> tuple[str, ...]:
    """What is worth a message of its own since it was last told, in words."""
    made = []
    if SEVERITY_ORDER.index(notice.severity) < SEVERITY_ORDER.index(told.severity):
        made.append(f"Worse: now {notice.severity}.")
    if not notice.resolved and notice.affected >= SPREAD * max(told.affected, 1):
        made.append(f"Spread: now {printable(notice.where)}.")
    made += [one.text for one in [one for one in notice.remarks if one.loud][told.remarks :]]
    if notice.resolved and not told.resolved:
        made.append(ending(notice))
    if told.resolved and not notice.resolved:
        made.append("It is back.")
    return tuple(made)


def next_step(line: Line, *, updates: bool) -> Step | None:
    """What to send next; None where the receiver knows everything. ``updates``: its messages can be changed.

    A problem that was over before anybody was told is none of this: see ``came_and_went``.
    """
    notice, told = line.notice, line.told
    if told is None:
        return None if notice.resolved or notice.quiet else Step("post", notice, Told.of(notice))
    fresh = () if notice.quiet and not notice.resolved else news(told, notice)
    if not updates:
        worse = bool(fresh) and not notice.resolved
        shown = replace(notice, state="worsened") if worse else notice
        return Step("post", shown, Told.of(notice), fresh) if fresh else None
    if line.place is None:
        return Step("post", notice, Told.of(notice), fresh) if fresh or told.shown != notice.fingerprint else None
    if told.shown != notice.fingerprint:
        return Step("update", notice, replace(told, shown=notice.fingerprint))
    if fresh:
        return Step("reply", notice, Told.of(notice), fresh)
    return None


def came_and_went(line: Line) -> bool:
    """Whether it was over before anybody was told, and is worth a mention."""
    return line.told is None and line.notice.resolved and not line.notice.quiet


# --- sending -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Delivery:
    """One message. ``key`` is the same at every try.

    ``post``, ``update``, ``reply``: of one ``notice``, the last two at ``place``. ``summary``: ``many`` that are over.
    ``digest``: ``many`` notices in one message. ``earlier`` is the key of a message that was tried at ``attempted`` and
    may have arrived. ``plain``: the receiver did not take it in its usual form. ``told`` is what the receiver of a
    message of one notice knows afterwards.
    """

    key: str
    kind: StepKind | Literal["summary", "digest", "test"]
    notice: Notice | None = None
    news: tuple[str, ...] = ()
    place: Place | None = None
    many: tuple[Notice, ...] = ()
    earlier: str | None = None
    attempted: float | None = None
    plain: bool = False
    now: float = 0.0
    receiver: str = ""
    told: Told | None = None


@dataclass(frozen=True)
class Sent:
    """That a message has arrived, and where, if that is known.

    ``found``: it had arrived at an earlier try, when other things were so: ``told`` is what it told, if that is known.
    """

    place: Place | None = None
    found: bool = False
    told: Told | None = None


class Receiver(Protocol):
    """Where messages go."""

    def send(self, delivery: Delivery) -> Sent:
        """Send one message; blocks for seconds at most. Raises ``NotifyError``."""


@dataclass(frozen=True)
class Mailbox:
    """A receiver with its name. ``lane``: those of one lane share its pace, ``pace_s`` seconds between two messages."""

    name: str
    receiver: Receiver
    lane: str
    updates: bool = False
    pace_s: float = 1.0


@dataclass(frozen=True)
class Settlement:
    """What became of a message: the lines that it was of, with what is known at them now."""

    key: str
    kind: str
    receiver: str
    lines: Mapping[int, tuple[int, Told | None]]
    """Id -> version that was sent, and what is known now."""
    place: Place | None = None
    finished: frozenset[int] = field(default_factory=frozenset)
    """Lines at which nothing is left to be told of that version."""


class Outbox(Protocol):
    """Where lines are kept. Every method raises ``HistoryError`` where that cannot be reached."""

    def post(self, postings: Sequence[Posting], now: float) -> int:
        """Put notices in; how many lines have changed. The same notice again changes nothing."""

    def remark(self, key: str, remark: Remark, now: float) -> int:
        """Add a remark to the newest lines of a problem; how many there are."""

    def due(self, receiver: str, now: float) -> Sequence[Line]:
        """Lines with something to be told to a receiver now, the oldest first."""

    def next_due(self, now: float) -> float | None:
        """When the next line is due, later than ``now``; None where none is."""

    def begin(self, ids: Sequence[int], key: str, now: float) -> bool:
        """Note that a message is being sent. False: another replica sends."""

    def settle(self, done: Settlement, now: float) -> None:
        """Note that a message has arrived."""

    def idle(self, versions: Mapping[int, int]) -> None:
        """Note lines, with their versions, at which nothing is to be told."""

    def failed(self, ids: Sequence[int], reason: str, again: float | None, *, unsure: bool) -> None:
        """Note that a message did not arrive, and when to try again; None: not before something changes.

        ``unsure``: it may have arrived.
        """

    def lost(self, line: int) -> None:
        """Note that the message of a line is not there any more."""

    def abandon(self, known: Sequence[str]) -> int:
        """Give up what is for receivers that are not known any more; how many lines."""

    def expire(self, before: float) -> int:
        """Give up what is over since before a moment and still could not be told; how many lines."""
