"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_OPEN = sa.text("ended IS NULL")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "palanca_sources",
        sa.Column("id", _ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("recorded", sa.Double()),
        sa.Column("unreadable_since", sa.Double()),
        sa.PrimaryKeyConstraint("id", name="pk_palanca_sources"),
        sa.UniqueConstraint("name", name="uq_palanca_sources_name"),
    )
    op.create_table(
        "palanca_targets",
        sa.Column("id", _ID, nullable=False),
        sa.Column("source_id", _ID, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("present", sa.Boolean(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("release", sa.Text()),
        sa.Column("started", sa.Double()),
        sa.Column("resets", sa.Double()),
        sa.Column("reset_noted", sa.Double()),
        sa.PrimaryKeyConstraint("id", name="pk_palanca_targets"),
        sa.ForeignKeyConstraint(["source_id"], ["palanca_sources.id"], name="fk_palanca_targets_source_id"),
        sa.UniqueConstraint("source_id", "digest", name="uq_palanca_targets_source_id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "palanca_labels",
        sa.Column("target_id", _ID, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("target_id", "position", name="pk_palanca_labels"),
        sa.ForeignKeyConstraint(
            ["target_id"], ["palanca_targets.id"], name="fk_palanca_labels_target_id", ondelete="CASCADE"
        ),
    )
    _episodes()
    _events()
    op.create_table(
        "palanca_verifications",
        sa.Column("id", _ID, nullable=False),
        sa.Column("episode_id", _ID, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_palanca_verifications"),
        sa.ForeignKeyConstraint(
            ["episode_id"], ["palanca_episodes.id"], name="fk_palanca_verifications_episode_id", ondelete="CASCADE"
        ),
        sa.UniqueConstraint("episode_id", "digest", name="uq_palanca_verifications_episode_id"),
    )
    op.create_table(
        "palanca_leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("token", _ID, nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_palanca_leases"),
    )


def _episodes() -> None:
    op.create_table(
        "palanca_episodes",
        sa.Column("id", _ID, nullable=False),
        sa.Column("target_id", _ID, nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("worst", sa.String(16), nullable=False),
        sa.Column("began", sa.Double(), nullable=False),
        sa.Column("ended", sa.Double()),
        sa.Column("lapsed", sa.Double()),
        sa.Column("reason", sa.Text()),
        sa.Column("first", sa.Text(), nullable=False),
        sa.Column("latest", sa.Text(), nullable=False),
        sa.Column("peak", sa.Text(), nullable=False),
        sa.Column("worsened", sa.Text(), nullable=False),
        sa.Column("acknowledged", sa.Double()),
        sa.Column("acknowledged_by", sa.Text()),
        sa.Column("note", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_palanca_episodes"),
        sa.ForeignKeyConstraint(["target_id"], ["palanca_targets.id"], name="fk_palanca_episodes_target_id"),
        sa.UniqueConstraint("target_id", "rule", "began", name="uq_palanca_episodes_target_id"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "uq_palanca_episodes_open",
        "palanca_episodes",
        ["target_id", "rule"],
        unique=True,
        sqlite_where=_OPEN,
        postgresql_where=_OPEN,
    )
    op.create_index("ix_palanca_episodes_began", "palanca_episodes", ["began", "id"])
    op.create_index("ix_palanca_episodes_ended", "palanca_episodes", ["ended"])


def _events() -> None:
    op.create_table(
        "palanca_events",
        sa.Column("id", _ID, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("source_id", _ID, nullable=False),
        sa.Column("target_id", _ID),
        sa.Column("episode_id", _ID),
        sa.Column("rule", sa.Text()),
        sa.Column("severity", sa.String(16)),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_palanca_events"),
        sa.ForeignKeyConstraint(["source_id"], ["palanca_sources.id"], name="fk_palanca_events_source_id"),
        sa.ForeignKeyConstraint(
            ["target_id"], ["palanca_targets.id"], name="fk_palanca_events_target_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["episode_id"], ["palanca_episodes.id"], name="fk_palanca_events_episode_id", ondelete="CASCADE"
        ),
        sa.UniqueConstraint("key", name="uq_palanca_events_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_palanca_events_time", "palanca_events", ["time", "id"])
    op.create_index("ix_palanca_events_target_id", "palanca_events", ["target_id"])
    op.create_index("ix_palanca_events_episode_id", "palanca_events", ["episode_id"])


def downgrade() -> None:
    """Drop them, and all history with them."""
    for name in ("leases", "verifications", "events", "episodes", "labels", "targets", "sources"):
        op.drop_table(f"palanca_{name}")
