"""What the OpenAPI document says of the diagnosis."""

from __future__ import annotations

from typing import Any

from palanca.render.document import json_schema


def diagnosis_schema() -> dict[str, Any]:
    """JSON Schema of an answer: that of the diagnosis, in which ``fields`` may leave out keys of a target."""
    schema = json_schema()
    schema.pop("$schema")
    definitions = schema.pop("$defs")
    definitions["TargetDocument"].pop("required", None)
    whole: dict[str, Any] = _inlined(schema, definitions)
    return whole


def _inlined(part: Any, definitions: dict[str, Any]) -> Any:  # noqa: ANN401  a schema is any JSON
    """Put definitions where they are named: OpenAPI keeps its own elsewhere."""
    if isinstance(part, dict):
        name = str(part.get("$ref", "")).removeprefix("#/$defs/")
        if name in definitions:
            rest = {key: value for key, value in part.items() if key != "$ref"}
            return _inlined({**definitions[name], **rest}, definitions)
        return {key: _inlined(value, definitions) for key, value in part.items()}
    return [_inlined(item, definitions) for item in part] if isinstance(part, list) else part


DIAGNOSIS_EXAMPLE: dict[str, Any] = {
    "schema": "palanca.diagnosis/v1",
    "time": "2026-11-29T20:09:00Z",
    "source": {
        "name": "prometheus", "url": "http://prometheus:9090", "state": "ok", "age_s": 4.2, "warnings": [],
        "error": None,
    },
    "sources": [
        {
            "name": "prometheus", "url": "http://prometheus:9090", "state": "ok", "age_s": 4.2, "warnings": [],
            "error": None,
        }
    ],
    "targets": [
        {
            "target": {"instance": "vllm-0:8000", "job": "vllm", "model_name": "llama"},
            "status": "critical",
            "vllm": {"release_range": "0.32.0", "provenance": "reported"},
            "signals": {"kv_cache_usage": {"value": 0.95, "unit": "ratio", "state": "ok", "window_s": 300.0}},
            "findings": [
                {
                    "rule": "kv-cache-saturated", "cause": "kv-capacity", "severity": "critical",
                    "confidence": "high", "role": "root", "state": "firing", "scope": "target", "group": None,
                    "explained_by": [], "since": "2026-11-29T20:04:00Z", "since_at_least": False,
                    "title": "KV cache is full and requests are being preempted",
                    "summary": "KV cache usage is 0.95; 424 preemptions/min throw work away.",
                    "evidence": [
                        {
                            "signal": "kv_cache_usage", "value": 0.95, "op": ">", "threshold": 0.85,
                            "unit": "ratio", "promql": "avg_over_time(vllm:kv_cache_usage_perc[5m])",
                        }
                    ],
                    "recommendations": [],
                }
            ],
            "unknown": [],
            "not_applicable": [],
            "bottleneck": {
                "slots": 0.22, "kv": 0.95, "token_budget": 0.02, "prefill": 0.7, "decode": None, "frontend": 0.01,
            },
        }
    ],
}  # fmt: skip
"""What an answer looks like; a test checks it against the schema."""
