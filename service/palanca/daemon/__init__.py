"""The daemon: polls every source again and again, and keeps the last finished diagnosis."""
