"""What the exported rules cost in a real Prometheus, beside the same alerts written by hand. Prints a table.

Run as ``python -m bench.alert_cost``. Made-up engines are scraped live; a Prometheus evaluates ``handwritten.yaml``
and the generated files, and says itself how long each evaluation of a group took.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from bench import fleet

from palanca.alerting.group import prometheus
from palanca.alerting.matrix import Matrix
from palanca.alerting.options import Options, release_range
from palanca.check import load_catalogue
from palanca.resources import shipped

HANDWRITTEN = Path(__file__).with_name("handwritten.yaml")
_DURATION = re.compile(
    r'^prometheus_rule_group_last_duration_seconds\{rule_group="[^;]*;([^"]+)"\} (\S+)$', re.MULTILINE
)
_AT = re.compile(
    r'^prometheus_rule_group_last_evaluation_timestamp_seconds\{rule_group="[^;]*;([^"]+)"\} (\S+)$', re.MULTILINE
)


def _used() -> set[str]:
    text = prometheus(Matrix(load_catalogue([shipped("rules")]), Options()))
    return set(re.findall(r"\bvllm:\w+|\bhttp_requests_total|\bprocess_start_time_seconds", text))


def page(url: str) -> str:
    """The own metrics of the Prometheus; empty while it does not answer."""
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, OSError):
        return ""


def measured(url: str, evaluations: int) -> dict[str, list[float]]:
    """Durations of at least so many evaluations of the groups that are compared, in seconds."""
    seen: dict[str, dict[str, float]] = {}
    while any(len(seen.get(group, ())) < evaluations + 1 for group in ("handwritten", "palanca")):
        text = page(url)
        moments = dict(_AT.findall(text))
        for group, duration in _DURATION.findall(text):
            if float(moments[group]) > 0:
                seen.setdefault(group, {}).setdefault(moments[group], float(duration))
        time.sleep(4)
    # The first one that is seen may be of the rules before.
    return {group: list(one.values())[len(one) > 1 :] for group, one in seen.items()}


def run(count: int, warm: float, evaluations: int) -> None:
    """Measure with so many engines, and print."""
    catalogue = load_catalogue([shipped("rules")])
    variants = {
        "all releases": Options(),
        "--vllm 0.33": Options(releases=release_range("0.33", catalogue.metrics)),
    }
    with tempfile.TemporaryDirectory() as name, fleet.engines(fleet.lines(_used())) as port:
        folder = Path(name)
        (folder / "prometheus.yml").write_text(fleet.config(port, count, ["handwritten.yaml", "generated.yaml"]))
        (folder / "handwritten.yaml").write_text(HANDWRITTEN.read_text(encoding="utf-8"), encoding="utf-8")
        (folder / "generated.yaml").write_text("groups: []\n", encoding="utf-8")
        with fleet.server(folder) as (url, process):
            time.sleep(warm)
            for variant, options in variants.items():
                (folder / "generated.yaml").write_text(prometheus(Matrix(catalogue, options)), encoding="utf-8")
                fleet.reload(process)
                time.sleep(2 * fleet.SCRAPE_S)
                report(count, variant, measured(url, evaluations))


def report(count: int, variant: str, found: dict[str, list[float]]) -> None:
    """Print the medians of the groups."""
    floor = statistics.median(found["handwritten"])
    for group in ("handwritten", "palanca", "palanca-slo", "palanca-guard"):
        median = statistics.median(found[group])
        share = f"{median / floor:5.2f}" if group in {"handwritten", "palanca"} else "    -"
        print(f"{count:>8} {variant:<14} {group:<14} {median * 1000:9.1f} {share}", flush=True)


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--warm", type=float, default=330, help="seconds until the windows of 5 minutes are full")
    parser.add_argument("--evaluations", type=int, default=9)
    arguments = parser.parse_args()
    print(f"{'engines':>8} {'releases':<14} {'group':<14} {'median ms':>9} {'times':>5}")
    for count in arguments.engines:
        run(count, arguments.warm, arguments.evaluations)


if __name__ == "__main__":
    main()
