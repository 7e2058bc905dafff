"""Examples of answers in the OpenAPI document; a test holds each against its schema."""

from __future__ import annotations

from typing import Any

Example = dict[str, Any]

SOURCE: Example = {
    "name": "prometheus", "url": "http://prometheus:9090", "state": "ok", "age_s": 4.2, "warnings": [], "error": None,
}  # fmt: skip
LABELS: Example = {"instance": "vllm-0:8000", "job": "vllm", "model_name": "llama"}
VLLM: Example = {"release_range": "0.32.0", "provenance": "reported"}
BOTTLENECK: Example = {
    "slots": 0.22, "kv": 0.95, "token_budget": 0.02, "prefill": 0.7, "decode": None, "frontend": 0.01,
}  # fmt: skip
EVIDENCE: Example = {
    "signal": "kv_cache_usage", "value": 0.95, "op": ">", "threshold": 0.85, "unit": "ratio",
    "promql": "avg_over_time(vllm:kv_cache_usage_perc[5m])",
}  # fmt: skip
FINDING: Example = {
    "rule": "kv-cache-saturated", "cause": "kv-capacity", "severity": "critical", "confidence": "high", "role": "root",
    "state": "firing", "scope": "target", "group": None, "explained_by": [], "since": "2026-11-29T20:04:00Z",
    "since_at_least": False, "silenced": None, "title": "KV cache is full and requests are being preempted",
    "summary": "KV cache usage is 0.95; 424 preemptions/min throw work away.", "evidence": [EVIDENCE],
    "recommendations": [
        {
            "lever": "kv_cache_dtype", "direction": "set", "flag": "--kv-cache-dtype", "current": "auto",
            "provenance": "reported", "proposed": "fp8", "argument": "--kv-cache-dtype fp8",
            "computed_from": "one byte per element instead of two",
            "why": "Half the bytes per token hold twice the tokens.", "effect": "about 2 times the tokens",
            "trade_off": "a small loss of accuracy",
            "verify": [{"signal": "preemptions_per_minute", "expect": "<= 1", "within": "10m"}],
            "risk": "medium", "applies_to": "1 of 1 engines",
        }
    ],
}  # fmt: skip
TIME = "2026-11-29T20:09:00Z"
DIAGNOSIS: Example = {
    "schema": "palanca.diagnosis/v1",
    "time": TIME,
    "source": SOURCE,
    "sources": [SOURCE],
    "targets": [
        {
            "target": LABELS,
            "status": "critical",
            "vllm": VLLM,
            "signals": {"kv_cache_usage": {"value": 0.95, "unit": "ratio", "state": "ok", "window_s": 300.0}},
            "findings": [FINDING],
            "unknown": [],
            "not_applicable": [],
            "bottleneck": BOTTLENECK,
        }
    ],
}
MARKDOWN = "# Diagnosis of 2026-11-29 20:09:00 UTC\n\n1 engine: 1 critical\n"
TEXT = "2026-11-29 20:09:00 UTC, 1 engine: 1 critical\n"
RULE: Example = {
    "id": "kv-cache-saturated", "title": FINDING["title"], "area": "kv-cache", "cause": "kv-capacity",
    "severity": "critical", "maturity": "stable", "when": "kv_cache_usage > full and preemptions_per_minute > many",
    "for": "3m", "thresholds": {"full": {"value": 0.85, "unit": "ratio", "source": "seed article"}},
    "standing": {"firing": 1, "pending": 0, "unknown": 0, "not_applicable": 0, "quiet": 2},
}  # fmt: skip
STATE: Example = {"enabled": True, "reason": None, "since": "2026-11-29T18:00:00Z"}
EPISODE: Example = {
    "id": 42, "source": "prometheus", "target": LABELS, "rule": "kv-cache-saturated", "cause": "kv-capacity",
    "state": "firing", "severity": "critical", "since": FINDING["since"], "since_at_least": False,
    "began": "2026-11-29T20:07:00Z", "ended": None, "lasted_s": None, "lapsed": None, "reason": None, "worsened": [],
    "first": FINDING, "latest": FINDING, "peak": [EVIDENCE],
    "acknowledged": {"time": TIME, "who": "ana", "note": "bigger pool rolling out"}, "verifications": [],
}  # fmt: skip
EVENT: Example = {
    "id": 7, "time": "2026-11-29T20:07:00Z", "kind": "began", "source": "prometheus", "target": LABELS, "episode": 42,
    "rule": "kv-cache-saturated", "severity": "critical", "reason": None, "since": None, "changes": [], "who": None,
    "note": None,
}  # fmt: skip
ONE_EPISODE: Example = {"schema": "palanca.history/v1", "history": STATE, "episode": EPISODE}

EXAMPLES: dict[tuple[str, str], Example] = {
    ("get", "/diagnose"): DIAGNOSIS,
    ("get", "/api/v1/targets"): {
        "schema": "palanca.targets/v1", "time": TIME, "source": SOURCE, "total": 1,
        "targets": [
            {
                "target": LABELS, "status": "critical", "vllm": VLLM, "findings": 1,
                "worst": {name: FINDING[name] for name in ("rule", "cause", "severity", "summary")},
                "unknown": 0, "bottleneck": BOTTLENECK,
            }
        ],
    },
    ("get", "/api/v1/findings"): {
        "schema": "palanca.findings/v1", "time": TIME, "source": SOURCE, "total": 1,
        "findings": [{**FINDING, "target": LABELS}],
    },
    ("get", "/api/v1/signals"): {
        "schema": "palanca.signals/v1", "time": TIME, "source": SOURCE, "total": 1,
        "signals": [
            {
                "name": "kv_cache_usage", "title": "KV cache in use", "unit": "ratio", "window_s": 300.0,
                "values": [{"target": LABELS, "value": 0.95, "state": "ok"}],
            }
        ],
    },
    ("get", "/api/v1/rules"): {"schema": "palanca.rules/v1", "rules": [RULE]},
    ("get", "/api/v1/rules/{rule_id}"): {
        "schema": "palanca.rule/v1", **RULE, "scope": "target", "supports": ["waiting > queued"], "contradicts": [],
        "explains": ["ttft-high"],
        "levers": [
            {
                "lever": "kv_cache_dtype", "direction": "set", "order": 1, "value": None,
                "why": "Half the bytes per token hold twice the tokens.",
            }
        ],
        "references": ["seed article"], "runbook": "# KV cache is full\n",
    },
    ("get", "/api/v1/history"): {
        "schema": "palanca.history/v1", "history": STATE, "episodes": [EPISODE], "next": None,
    },
    ("get", "/api/v1/history/events"): {
        "schema": "palanca.history/v1", "history": STATE, "events": [EVENT], "next": "1795982820.0_7",
    },
    ("get", "/api/v1/history/{episode_id}"): ONE_EPISODE,
    ("post", "/api/v1/history/{episode_id}/acknowledge"): ONE_EPISODE,
    ("post", "/api/v1/history/{episode_id}/verify"): {
        **ONE_EPISODE, "episode": {**EPISODE, "verifications": [{"time": TIME, "document": {"verdict": "helped"}}]},
    },
    ("post", "/api/v1/alertmanager"): {
        "schema": "palanca.accepted/v1", "identity": "0f3d1c7e5a9b2d4f6e8a0c1b3d5f7e9a0f3d1c7e5a9b2d4f6e8a0c1b3d5f7e9a",
        "alerts": 3, "unknown": 0,
    },
    ("get", "/healthz"): {"status": "ok", "version": "0.1.0"},
    ("get", "/readyz"): {"ready": True, "sources": [SOURCE]},
}  # fmt: skip
"""Of JSON, by method and path. FastAPI would leave the nulls out, were they given with the routes."""
