"""Lets a test meet missing permissions, which root would never see."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def nobody(folder: Path) -> Iterator[None]:
    """Run as a user without rights, where the tests run as root; the folders above ``folder`` become passable."""
    if os.geteuid() != 0:
        yield
        return
    for above in (folder, *folder.parents):
        if above.stat().st_uid == 0 and above != Path(above.anchor):
            above.chmod(above.stat().st_mode | 0o055)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
