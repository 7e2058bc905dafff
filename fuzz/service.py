"""Schemathesis against a real service: ``palanca serve`` over a real Prometheus, with history and receivers.

    python -m fuzz.service [--seconds 120] [--seed N]

Every operation of the OpenAPI document that the service itself gives is asked with requests that the document allows
and with such that it does not, round after round with other seeds, until the time is over. Besides, pages and odd
requests that the document does not know. It fails (exit code 1) where an answer is no documented one, where wrong
requests are not refused, where the service ends, leaves a traceback in its log, or is not well afterwards.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from urllib.parse import quote_from_bytes

from tests.api.requests import CHECKS, tried_all
from tests.fuzz.clients import PATHS, QUERY_WORDS, queries
from tests.live import write_live
from tests.servers import prometheus
from tests.serving import Running, serving, until
from tests.slack import slack

ALL_CHECKS = (*CHECKS, "unsupported_method", "allow_header_conformance")
EXAMPLES = 30
SETTINGS = """
sources: [{{name: eu, prometheus: "{prometheus}"}}]
interval: 5s
listen: {{port: 0}}
history: {{database: "{folder}/palanca.db"}}
notify:
  path: alertmanager
  slack: [{{name: ops, webhook_url_file: "{hook}"}}]
"""


def settings(folder: Path, url: str, hook: str) -> Path:
    """Write the settings of a service with everything in it."""
    secret = folder / "hook"
    secret.write_text(hook + "\n", encoding="utf-8")
    secret.chmod(0o600)
    path = folder / "palanca.yaml"
    path.write_text(SETTINGS.format(prometheus=url, folder=folder, hook=secret), encoding="utf-8")
    return path


def odd_requests(service: Running, dice: random.Random, count: int) -> tuple[list[str], Counter[int]]:
    """Ask pages and routes with queries that are nearly right; what was answered with a fault of ours."""
    wrong, statuses = [], Counter[int]()
    starts = [one[1:] for one in queries()]
    for _ in range(count):
        query = bytearray(dice.choice(starts))
        for _ in range(dice.randrange(4)):
            at = dice.randrange(len(query) + 1)
            query[at:at] = dice.choice(QUERY_WORDS).encode() if dice.random() < 0.7 else dice.randbytes(2)  # noqa: PLR2004
        path = f"{dice.choice(PATHS)}?{quote_from_bytes(bytes(query), safe='=&%+:-_.,')}"
        answer = service.get(path, headers={"Accept": dice.choice(["*/*", "text/html", "text/plain", "x"])})
        statuses[answer.status] += 1
        if answer.status >= 500 and answer.status != 503:  # noqa: PLR2004
            wrong.append(f"{answer.status} for {path}: {answer.text[:300]}")
    return wrong, statuses


def fuzz(seconds: float, seed: int) -> list[str]:
    """Ask for so long; what went wrong."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        text = write_live(folder / "live.om", time.time())
        with prometheus(text, folder / "server") as url, slack(pace=0.0) as fake:
            path = settings(folder, url, fake.hook)
            with serving(folder, "--config", path) as service:
                service.polled("eu")
                return _asked(service, seconds, seed)


def _asked(service: Running, seconds: float, seed: int) -> list[str]:
    dice, begin = random.Random(seed), time.monotonic()
    end = begin + seconds
    document = json.loads(service.get("/openapi.json").text)
    wrong: list[str] = []
    statuses = Counter[int]()
    rounds = 0
    while time.monotonic() < end or rounds == 0:
        more, met = odd_requests(service, dice, 100)
        wrong += more
        statuses += met
        failures, met_too = tried_all(
            document, service.url, seed + rounds, EXAMPLES, checks=ALL_CHECKS, enough=lambda: time.monotonic() > end
        )
        wrong += failures
        statuses += Counter(met_too)
        rounds += 1
        print(f"{time.monotonic() - begin:6.0f} s, round {rounds}: {len(set(wrong))} faults", flush=True)
    until(lambda: service.get("/readyz").status == 200, 60)  # noqa: PLR2004
    print(f"seed {seed}: {rounds} rounds, statuses met {sorted(statuses)}, {service.files()} open files")
    code, _ = service.stop()
    wrong += [f"it ended with {code}"] if code else []
    wrong += [f"a traceback in the log: {service.log[-3000:]}"] if "Traceback" in service.log else []
    return list(dict.fromkeys(wrong))


def main() -> None:
    """Fuzz, and print what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    arguments = parser.parse_args()
    wrong = fuzz(arguments.seconds, arguments.seed)
    for one in wrong[:50]:
        print(one)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
