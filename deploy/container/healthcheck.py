"""Exit status 0 when the service in this container answers on ``/healthz``, else 1 and why: the image has no curl.

The port is that of ``PALANCA_LISTEN__PORT``. TLS is tried where plain HTTP is not spoken, and the certificate is not
verified: it names the service, not the loopback address.
"""
# ruff: noqa: INP001  a script of the image, not a package

from __future__ import annotations

import os
import signal
import ssl
import sys
import urllib.request
from http.client import HTTPException

TIMEOUT_S = 2.0
"""For each step of each try; the alarm is for a service that answers a byte at a time."""

DEADLINE_S = 4
"""Below the timeout of the Dockerfile, which has the start of Python as well."""


def check(port: int) -> str | None:
    """Return why the service on this port of the loopback address is not healthy, or None."""
    unverified = ssl.create_default_context()
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    # A proxy of the environment is for other hosts.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=unverified)
    )
    problem = None
    for scheme in ("http", "https"):
        try:
            with opener.open(f"{scheme}://127.0.0.1:{port}/healthz", timeout=TIMEOUT_S):
                return None
        except (OSError, HTTPException) as error:
            problem = problem or f"{type(error).__name__}: {error}"
    return problem


def late(*_: object) -> None:
    """End with a message: the deadline is over."""
    sys.exit(f"no answer within {DEADLINE_S} s")


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, late)
    signal.alarm(DEADLINE_S)
    sys.exit(check(int(os.environ.get("PALANCA_LISTEN__PORT", "9797"))))
