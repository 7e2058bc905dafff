"""Messages to people and to Alertmanager, each behind a Protocol of one method."""
