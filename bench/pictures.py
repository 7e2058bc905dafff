"""Pictures of the pages for the documents, taken of the recorded incident that ``palanca demo`` replays.

usage: python -m bench.pictures [FOLDER]     (make pictures)
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page, sync_playwright
from tests.servers import tool
from tests.web.served import ARGUMENTS, PHONE, WIDE

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
LARGEST = 200_000
"""Bytes of a picture."""
PATIENCE_S = 60.0
Picture = tuple[str, str, int, int, Literal["light", "dark"]]
PICTURES: tuple[Picture, ...] = (
    ("fleet", "/", WIDE, 720, "light"),
    ("engine", "/engine", WIDE, 1250, "light"),
    ("engine-dark", "/engine", WIDE, 1250, "dark"),
    ("engine-phone", "/engine", PHONE, 1500, "dark"),
    ("rules", "/rules", WIDE, 720, "light"),
    ("size", "/size?reference=rtx-4090-7b&users=32&context=2048", WIDE, 900, "light"),
)
"""Name, page, width, height, colours."""


@contextmanager
def demo() -> Iterator[str]:
    """Serve the incident; yields the address once it is found."""
    command = [sys.executable, "-m", "palanca.cli", "demo", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ)
    try:
        found = re.search(r"serves at (\S+) ", process.stderr.readline() if process.stderr else "")
        if found is None:
            sys.exit("palanca demo does not say where it serves")
        deadline = time.monotonic() + PATIENCE_S
        while b"kv-cache-saturated" not in _answer(found[1] + "/api/v1/findings"):
            if time.monotonic() > deadline:
                sys.exit("palanca demo has found nothing")
            time.sleep(0.5)
        yield found[1]
    finally:
        process.terminate()
        process.wait(timeout=20)


def _answer(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as response:
        return bytes(response.read())


def main(folder: Path) -> None:
    """Take all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with demo() as url, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=tool("chromium"), args=[*ARGUMENTS])
        for name, path, width, height, scheme in PICTURES:
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            page: Page = context.new_page()
            page.goto(url + path)
            file = folder / f"{name}.png"
            page.screenshot(path=file)
            context.close()
            print(f"{file} {file.stat().st_size:,} bytes")
            if file.stat().st_size > LARGEST:
                sys.exit(f"{file} is larger than {LARGEST:,} bytes")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
