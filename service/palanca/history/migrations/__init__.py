"""Alembic's migrations of the history; ``palanca.history.migrate`` runs them."""
