"""The tables. Times are unix seconds; findings, labels and facts are JSON text (``codec``).

What may not be doubled is said by the database: one open episode per target and rule, one per target, rule and
beginning, one event per key. A target belongs to one source. Migrations (``migrations/versions``) make these tables; a
test compares both.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

VERSION_TABLE = "palanca_revision"
ID = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts only INTEGER keys by itself."""
LARGEST_ID = 2**63 - 1

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

sources = Table(
    "palanca_sources",
    metadata,
    Column("id", ID, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("recorded", Double),  # the last moment that was recorded
    Column("unreadable_since", Double),  # null while it is readable
)

targets = Table(
    "palanca_targets",
    metadata,
    Column("id", ID, primary_key=True),
    Column("source_id", ID, ForeignKey("palanca_sources.id"), nullable=False),
    Column("digest", String(64), nullable=False),  # SHA-256 of the labels, which may be too long for an index
    Column("labels", Text, nullable=False),
    Column("present", Boolean, nullable=False),
    Column("since", Double, nullable=False),  # when it was added, or removed
    Column("facts", Text, nullable=False),
    Column("release", Text),
    Column("started", Double),  # start of the server process
    Column("resets", Double),  # resets of its counters in the signal's window
    Column("reset_noted", Double),  # when a restart was last told from the counters alone
    UniqueConstraint("source_id", "digest"),
    sqlite_autoincrement=True,
)

labels = Table(
    "palanca_labels",
    metadata,
    Column("target_id", ID, ForeignKey("palanca_targets.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("value", Text, nullable=False),
)

episodes = Table(
    "palanca_episodes",
    metadata,
    Column("id", ID, primary_key=True),
    Column("target_id", ID, ForeignKey("palanca_targets.id"), nullable=False),
    Column("rule", Text, nullable=False),
    Column("cause", Text, nullable=False),
    Column("worst", String(16), nullable=False),
    Column("began", Double, nullable=False),
    Column("ended", Double),
    Column("lapsed", Double),
    Column("reason", Text),  # why it was resolved, where not by the rule
    Column("first", Text, nullable=False),
    Column("latest", Text, nullable=False),
    Column("peak", Text, nullable=False),
    Column("worsened", Text, nullable=False),
    Column("acknowledged", Double),
    Column("acknowledged_by", Text),
    Column("note", Text),
    UniqueConstraint("target_id", "rule", "began"),
    sqlite_autoincrement=True,
)
Index(
    "uq_palanca_episodes_open",
    episodes.c.target_id,
    episodes.c.rule,
    unique=True,
    sqlite_where=text("ended IS NULL"),
    postgresql_where=text("ended IS NULL"),
)
Index("ix_palanca_episodes_began", episodes.c.began, episodes.c.id)
Index("ix_palanca_episodes_ended", episodes.c.ended)

events = Table(
    "palanca_events",
    metadata,
    Column("id", ID, primary_key=True),
    Column("key", Text, nullable=False, unique=True),
    Column("time", Double, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("source_id", ID, ForeignKey("palanca_sources.id"), nullable=False),
    Column("target_id", ID, ForeignKey("palanca_targets.id", ondelete="CASCADE"), index=True),
    Column("episode_id", ID, ForeignKey("palanca_episodes.id", ondelete="CASCADE"), index=True),
    Column("rule", Text),
    Column("severity", String(16)),
    Column("detail", Text, nullable=False),
    sqlite_autoincrement=True,
)
Index("ix_palanca_events_time", events.c.time, events.c.id)

verifications = Table(
    "palanca_verifications",
    metadata,
    Column("id", ID, primary_key=True),
    Column("episode_id", ID, ForeignKey("palanca_episodes.id", ondelete="CASCADE"), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("time", Double, nullable=False),
    Column("document", Text, nullable=False),
    UniqueConstraint("episode_id", "digest"),
)

leases = Table(
    "palanca_leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("token", ID, nullable=False),  # grows with each change of the holder
    Column("expires", Double, nullable=False),
)

outbox = Table(
    "palanca_outbox",
    metadata,
    Column("id", ID, primary_key=True),
    Column("receiver", Text, nullable=False),
    Column("digest", String(64), nullable=False),  # SHA-256 of the key of the notice
    Column("number", Integer, nullable=False),  # counts the times that the problem came back
    Column("source", Text),  # the source whose polls say what is so; null where another program does
    Column("version", Integer, nullable=False),
    Column("notice", Text, nullable=False),
    Column("resolved", Boolean, nullable=False),
    Column("told", Text),
    Column("pending", Boolean, nullable=False),
    Column("batch", Boolean, nullable=False),  # to be told together with others
    Column("due", Double, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("attempt", Text),  # key of the message that is being sent
    Column("attempted", Double),
    Column("error", Text),
    Column("channel", Text),
    Column("ts", Text),
    Column("created", Double, nullable=False),
    Column("changed", Double, nullable=False),
    UniqueConstraint("receiver", "digest", "number"),
    sqlite_autoincrement=True,
)
Index("ix_palanca_outbox_due", outbox.c.pending, outbox.c.due)
Index("ix_palanca_outbox_digest", outbox.c.digest)
Index("ix_palanca_outbox_source", outbox.c.source, outbox.c.resolved)

messages = Table(
    "palanca_messages",
    metadata,
    Column("id", ID, primary_key=True),
    Column("key", String(64), nullable=False, unique=True),  # one message, however often it is tried
    Column("receiver", Text, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("time", Double, nullable=False),
    Column("channel", Text),
    Column("ts", Text),
    sqlite_autoincrement=True,
)
Index("ix_palanca_messages_time", messages.c.time)
