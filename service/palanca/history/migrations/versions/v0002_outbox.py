"""The outbox: what is to be told to whom, and what was."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "palanca_outbox",
        sa.Column("id", _ID, nullable=False),
        sa.Column("receiver", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("source", sa.Text()),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("notice", sa.Text(), nullable=False),
        sa.Column("resolved", sa.Boolean(), nullable=False),
        sa.Column("told", sa.Text()),
        sa.Column("pending", sa.Boolean(), nullable=False),
        sa.Column("batch", sa.Boolean(), nullable=False),
        sa.Column("due", sa.Double(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Text()),
        sa.Column("attempted", sa.Double()),
        sa.Column("error", sa.Text()),
        sa.Column("channel", sa.Text()),
        sa.Column("ts", sa.Text()),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("changed", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_palanca_outbox"),
        sa.UniqueConstraint("receiver", "digest", "number", name="uq_palanca_outbox_receiver"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_palanca_outbox_due", "palanca_outbox", ["pending", "due"])
    op.create_index("ix_palanca_outbox_digest", "palanca_outbox", ["digest"])
    op.create_index("ix_palanca_outbox_source", "palanca_outbox", ["source", "resolved"])
    op.create_table(
        "palanca_messages",
        sa.Column("id", _ID, nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("receiver", sa.Text(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("channel", sa.Text()),
        sa.Column("ts", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_palanca_messages"),
        sa.UniqueConstraint("key", name="uq_palanca_messages_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_palanca_messages_time", "palanca_messages", ["time"])


def downgrade() -> None:
    """Drop them, and what was not told yet with them."""
    op.drop_table("palanca_messages")
    op.drop_table("palanca_outbox")
