"""Every name that the exported files give to something: recorded series, alerts, labels, annotations, groups."""

from __future__ import annotations

from palanca.model import SCOPE_LABELS
from palanca.signals import identity
from palanca.signals import recorded as reading
from palanca.units import Unit

ENGINE = "palanca:engine:info"
"""1 for each engine with vLLM series in the last hour; what is known of servers only is joined onto it."""
SERVER = "palanca:server_seen:timestamp_seconds"
"""When each server last showed vLLM series (with its model), as long as it is a scrape target."""
JOB = "palanca:job_vllm_share:ratio"
"""Share of the answering servers of a job that have shown vLLM series."""
GUARDED = "palanca:guard:info"
"""1 at each evaluation of the guards."""
DEFINITIONS = "palanca:definitions:interval_seconds"
"""Seconds between the evaluations of a group; its labels say what the recorded series of the group are made of."""
BUCKETS = "palanca:buckets:series"
"""How many series have each ``le`` of each histogram."""
HISTOGRAM, DIGEST, GROUP, SELECTED = reading.HISTOGRAM, reading.DIGEST, reading.GROUP, reading.SELECTED
"""Labels of ``BUCKETS`` and ``DEFINITIONS``."""
SERVER_JOIN = identity.SERVER_JOIN
"""Labels that a server-wide series (``up``, ``http_*``, ``process_*``) shares with its engines."""
JOB_JOIN = ("cluster", "namespace", "job")
"""Labels that the servers of one job share."""
SCOPE = SCOPE_LABELS
"""Labels that the engines of one model share."""
IDENTITY = ("cluster", "namespace", "job", "instance", "model_name", "engine", "ReplicaId")
"""Labels that tell engines apart; those that an engine lacks match as empty ones."""

PREFIX = "Vllm"
WATCHDOG, PALANCA_DOWN, PALANCA_STALE = "Watchdog", "PalancaDown", "PalancaStale"
MODEL_DOWN, JOB_DOWN = "model-down", "job-down"
TARGET_DOWN, TARGET_NEVER_UP = "target-down", "target-never-up"
SERIES_MISSING, SERIES_ABSENT = "up-without-series", "series-absent"
"""Guards, named like rules: the prefix of alerts stands before them."""

SEVERITY, CAUSE, RULE, MATURITY, OVERRIDE = "severity", "cause", "palanca_rule", "maturity", "palanca_override"
OBJECTIVE, LONG_WINDOW, SHORT_WINDOW = "objective", "long_window", "short_window"
OWN_LABELS = frozenset({SEVERITY, CAUSE, RULE, MATURITY, OVERRIDE, OBJECTIVE, LONG_WINDOW, SHORT_WINDOW, "alertname"})

SUMMARY, DESCRIPTION = "summary", "description"
RUNBOOK_URL, DASHBOARD_URL, DIAGNOSE_URL = "runbook_url", "dashboard_url", "diagnose_url"

MATRIX_GROUP, SLO_GROUP, GUARD_GROUP, ITSELF_GROUP = "palanca", "palanca-slo", "palanca-guard", "palanca-itself"
QUANTILE_GROUP = "palanca-quantiles"

_LONG = {"s": "second", "min": "minute"}
_LONG_PLURAL = {"s": "seconds", "min": "minutes"}


def alert_name(rule_id: str, prefix: str = PREFIX) -> str:
    """Name of the alert of a rule: ``kv-cache-saturated`` -> ``VllmKvCacheSaturated``."""
    return prefix + "".join(word.capitalize() for word in rule_id.split("-"))


def unit_word(text: str) -> str:
    """A unit as the last part of a name: ``tokens/s`` -> ``tokens_per_second``, ``1/request`` -> ``per_request``."""
    above, _, below = Unit.parse(text).plural.partition("/")
    counted = "_".join(_LONG_PLURAL.get(word, word) for word in above.split() if word != "1")
    divided = "_".join(_LONG.get(word, word) for word in below.split())
    if not divided:
        return counted
    return f"{counted}_per_{divided}" if counted else f"per_{divided}"


def recorded(signal: str, unit: str) -> str:
    """Name of the recorded series of a signal: ``palanca:ttft_p99:seconds``."""
    return f"palanca:{signal}:{unit_word(unit)}"


def fleet_recorded(function: str, signal: str, unit: str) -> str:
    """Name of the series with a function over the engines of a model: ``palanca:load_fleet_mean:requests``."""
    return recorded(f"{signal}_{function}", "engines" if function == "fleet_count" else unit)
