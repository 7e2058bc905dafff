"""Records a diagnosis in one transaction: all of what follows from it is written, or nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, bindparam, insert, select, update

from palanca.episodes import Episode, advance, keys_of
from palanca.history import codec, journal, lines, roster
from palanca.history.entries import Detail, Gap, HistoryEvent, Outcome, Recorded
from palanca.history.journal import Entry
from palanca.history.leases import upsert
from palanca.history.tables import episodes, sources, targets
from palanca.model import Diagnosis, Finding, Target
from palanca.outgoing import Look, Standing, Tell
from palanca.render.words import without_credentials

if TYPE_CHECKING:
    from palanca.episodes import Key

REMOVED = "target removed"
RETIRED = "source removed"


@dataclass(frozen=True)
class _Open:
    id: int
    target_id: int
    episode: Episode
    acknowledged: str


@dataclass(frozen=True)
class _Source:
    id: int
    name: str
    recorded: float | None
    unreadable_since: float | None


def record(
    connection: Connection,
    now: float,
    source: str,
    diagnosis: Diagnosis,
    keep: Mapping[str, float],
    gap: Gap | None,
    tell: Tell | None = None,
) -> Recorded:
    """Move the history of one source on to ``now``; ``gap`` is told where nothing could be recorded before.

    Raises ``ValueError`` for a moment that is not finite.
    """
    if not math.isfinite(now):
        message = f"{now} is no moment"
        raise ValueError(message)
    row = _source(connection, codec.word(source))
    if row.recorded is not None and now <= row.recorded:
        return Recorded("late", behind_s=row.recorded - now)
    entries = [] if gap is None else [Entry("recording-resumed", now, detail=Detail(gap.reason, gap.since))]
    unreadable = diagnosis.source.state in {"unreachable", "stale"}
    shown = Look(row.name, now, blind=(_blind_since(row, now), _trouble(diagnosis)))
    if unreadable:
        if row.unreadable_since is None:
            entries.append(Entry("source-unreachable", now, detail=Detail(reason=_trouble(diagnosis))))
    else:
        if row.unreadable_since is not None:
            entries.append(Entry("source-recovered", now, detail=Detail(since=row.unreadable_since)))
        more, shown = _readable(connection, row, diagnosis, now, keep)
        entries += more
    if tell is not None:
        lines.post(connection, tell(shown), now, row.name, whole=not unreadable)
    since = _blind_since(row, now) if unreadable else None
    statement = update(sources).where(sources.c.id == row.id).values(recorded=now, unreadable_since=since)
    connection.execute(statement)
    outcome: Outcome = "unreadable" if unreadable else "recorded"
    return Recorded(outcome, journal.write(connection, row.id, row.name, entries))


def retire(
    connection: Connection, configured: Iterable[str], now: float, tell: Tell | None = None
) -> tuple[HistoryEvent, ...]:
    """Resolve what is open at sources that are not configured any more, and remove their targets."""
    kept = {codec.word(name) for name in configured}
    told: list[HistoryEvent] = []
    for name in connection.scalars(select(sources.c.name).order_by(sources.c.id)).all():
        if name in kept:
            continue
        row = _source(connection, name)
        moment = now if row.recorded is None else max(now, row.recorded)
        gone = roster.present(connection, row.id)
        opened = _opened(connection, row.id)
        entries = [*roster.remove(connection, gone, moment), *_resolve(connection, opened.values(), moment, RETIRED)]
        if entries:
            connection.execute(update(sources).where(sources.c.id == row.id).values(recorded=moment))
        if tell is not None:
            lines.post(connection, tell(Look(row.name, moment, _ended(entries))), moment, row.name, whole=True)
        told += journal.write(connection, row.id, row.name, entries)
    return tuple(told)


def _source(connection: Connection, name: str) -> _Source:
    """The row of a source, made where it is new, and locked: of two recorders the second one waits."""
    query = select(sources).where(sources.c.name == name).with_for_update(key_share=True)
    row = connection.execute(query).first()
    if row is None:
        connection.execute(upsert(connection)(sources).values(name=name).on_conflict_do_nothing())
        row = connection.execute(query).one()
    return _Source(row.id, row.name, row.recorded, row.unreadable_since)


def _blind_since(row: _Source, now: float) -> float:
    return now if row.unreadable_since is None else row.unreadable_since


def _trouble(diagnosis: Diagnosis) -> str:
    info = diagnosis.source
    return codec.word(without_credentials(info.error or f"the source is {info.state}"))


def _readable(
    connection: Connection, row: _Source, diagnosis: Diagnosis, now: float, keep: Mapping[str, float]
) -> tuple[list[Entry], Look]:
    found = replace(
        diagnosis,
        targets=tuple(replace(report, target=codec.stored_form(report.target)) for report in diagnosis.targets),
    )
    there = roster.look(connection, row.id, found, now)
    opened = _opened(connection, row.id)
    lost = [one for (target, _), one in opened.items() if target in there.gone]
    entries = [*there.entries, *_resolve(connection, lost, now, REMOVED)]
    findings = keys_of(found)
    moving = {
        key: one
        for key, one in opened.items()
        if key[0] in there.ids and not _unread(found, key) and not _too_short(findings.get(key))
    }
    step = advance({key: one.episode for key, one in moving.items()}, findings, now, keep)
    firing = {key: one for key, one in step.open.items() if one.began is not None}
    fresh = _begin(connection, there.ids, {key: one for key, one in firing.items() if key not in opened})
    ended = {_key(event.episode): event.episode for event in step.events if event.kind == "resolved"}
    _save(
        connection,
        [
            (moving[key].id, one)
            for key, one in {**firing, **ended}.items()
            if key in moving and one != moving[key].episode
        ],
    )
    ids = {**{key: one.id for key, one in moving.items()}, **fresh}
    for event in step.events:
        episode, key = event.episode, _key(event.episode)
        entries.append(
            Entry(event.kind, now, there.ids[key[0]], key[0], ids[key], episode, episode.rule, episode.worst)
        )
    asleep = {key: one for key, one in opened.items() if key not in moving and key[0] not in there.gone}
    stands = [Standing(ids[key], one, acknowledged=_who(opened.get(key))) for key, one in firing.items()]
    stands += [Standing(one.id, one.episode, acknowledged=_who(one)) for one in asleep.values()]
    return entries, Look(row.name, now, (*stands, *_ended(entries)), tuple(there.ids), found)


def _who(one: _Open | None) -> str:
    return "" if one is None else one.acknowledged


def _ended(entries: Iterable[Entry]) -> tuple[Standing, ...]:
    return tuple(
        Standing(one.episode_id, one.episode, one.detail.reason or "")
        for one in entries
        if one.kind == "resolved" and one.episode is not None and one.episode_id is not None
    )


def _unread(diagnosis: Diagnosis, key: Key) -> bool:
    """Whether a rule is unknown because its source answered in part only: that resolves nothing."""
    if diagnosis.source.state != "partial":
        return False
    target, rule = key
    return any(one.rule == rule for report in diagnosis.targets if report.target == target for one in report.unknown)


def _too_short(finding: Finding | None) -> bool:
    """Whether a rule holds for as long as the data reach, which is not long enough to fire: that resolves nothing.

    So it is after a restart where palanca scrapes itself.
    """
    return finding is not None and finding.state == "pending" and not finding.full_history


def _key(episode: Episode) -> Key:
    return episode.target, episode.rule


def _opened(connection: Connection, source_id: int) -> dict[tuple[Target, str], _Open]:
    query = select(episodes, targets.c.labels).join(targets, targets.c.id == episodes.c.target_id)
    query = query.where(targets.c.source_id == source_id, episodes.c.ended.is_(None)).order_by(episodes.c.id)
    made = {}
    for row in connection.execute(query):
        episode = episode_of(row)
        made[_key(episode)] = _Open(row.id, row.target_id, episode, row.acknowledged_by or "")
    return made


def episode_of(row: Any) -> Episode:  # noqa: ANN401  a row of SQLAlchemy
    """Make an episode of its row, joined with the labels of its target. Raises ``HistoryError``."""
    what = f"episode {row.id}"
    first = codec.read(codec.FINDING, row.first, what)
    return Episode(
        rule=row.rule,
        target=codec.target_of(row.labels),
        state="firing" if row.ended is None else "resolved",
        since=first.since,
        since_at_least=first.since_at_least,
        first=first,
        latest=codec.read(codec.FINDING, row.latest, what),
        worst=row.worst,
        began=row.began,
        ended=row.ended,
        lapsed=row.lapsed,
        peak=codec.read(codec.PEAK, row.peak, what),
        worsened=codec.read(codec.WORSENED, row.worsened, what),
    )


def _moving_columns(episode: Episode) -> dict[str, Any]:
    return {
        "cause": episode.latest.cause,
        "worst": episode.worst,
        "ended": episode.ended,
        "lapsed": episode.lapsed,
        "latest": codec.written(codec.FINDING, episode.latest),
        "peak": codec.written(codec.PEAK, episode.peak),
        "worsened": codec.written(codec.WORSENED, episode.worsened),
    }


def _begin(connection: Connection, ids: Mapping[Target, int], fresh: Mapping[Key, Episode]) -> dict[Key, int]:
    """Write episodes that began, and return their ids."""
    made: dict[Key, int] = {}
    for key, one in fresh.items():
        first = codec.written(codec.FINDING, one.first)
        plain = {"target_id": ids[key[0]], "rule": one.rule, "began": one.began, "first": first}
        done = connection.execute(insert(episodes).values(**plain, **_moving_columns(one)))
        made[key] = done.inserted_primary_key[0]  # type: ignore[index]
    return made


def _save(connection: Connection, changed: Sequence[tuple[int, Episode]], reason: str | None = None) -> None:
    rows = [{"id_": id_, **{f"{name}_": value for name, value in _moving_columns(one).items()}} for id_, one in changed]
    if not rows:
        return
    values: dict[str, Any] = {name: bindparam(f"{name}_") for name in _moving_columns(changed[0][1])}
    statement = update(episodes).where(episodes.c.id == bindparam("id_")).values(**values, reason=reason)
    connection.execute(statement, rows)


def _resolve(connection: Connection, opened: Iterable[_Open], now: float, reason: str) -> list[Entry]:
    """Resolve episodes for another reason than their rule."""
    done = [(one, replace(one.episode, state="resolved", ended=now)) for one in opened]
    _save(connection, [(one.id, episode) for one, episode in done], reason)
    return [
        Entry(
            "resolved", now, one.target_id, episode.target, one.id, episode, episode.rule, episode.worst, Detail(reason)
        )
        for one, episode in done
    ]
