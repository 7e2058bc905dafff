"""The REST API. Every router is made by a function of what it needs; nothing here knows how it was put together."""
