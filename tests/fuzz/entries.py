"""The table of entry points."""

from __future__ import annotations

from tests.fuzz.clients import REQUESTS
from tests.fuzz.entry import Entry
from tests.fuzz.files import FILES
from tests.fuzz.sources import SOURCES
from tests.fuzz.words import WORDS

ENTRIES: dict[str, Entry] = {one.name: one for one in (*SOURCES, *FILES, *WORDS, *REQUESTS)}
