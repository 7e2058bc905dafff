"""How long is looked: the same few examples each time, or many new ones with ``PALANCA_FUZZ_EXAMPLES=2000``."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

MANY = int(os.environ.get("PALANCA_FUZZ_EXAMPLES", "0"))


def examples(few: int) -> settings:
    """Return the settings of a property that looks at so many examples in the normal run."""
    return settings(
        max_examples=MANY or few,
        derandomize=not MANY,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
