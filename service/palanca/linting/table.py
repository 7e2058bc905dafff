"""All checks; a new one is a function, a line here and a section in docs/alerts-check.md."""

from __future__ import annotations

from palanca.linting.checks import aggregation, counters, histograms, joins, labels, live, names, shape, thresholds
from palanca.linting.finding import Check, FileCheck

SHAPE: tuple[Check, ...] = (
    Check("malformed-rule", "error", "Prometheus refuses the rule", shape.malformed_rule),
    Check("unparsable", "error", "the expression is no PromQL", shape.unparsable),
    Check("prometheus-1-syntax", "error", "the syntax of Prometheus 1", shape.prometheus_1_syntax),
)
"""Of every rule, whatever it is about."""

ABOUT_VLLM: tuple[Check, ...] = (
    Check("removed-name", "error", "a metric that vLLM no longer has", names.removed_name),
    Check("hidden-name", "error", "a metric that vLLM shows only with a flag", names.hidden_name),
    Check("newer-name", "error", "a metric that comes with a later release", names.newer_name),
    Check("deprecated-name", "info", "a metric that goes with a later release", names.deprecated_name),
    Check("unknown-name", "error", "a metric that never existed", names.unknown_name),
    Check("unknown-record", "info", "a recorded series that no rule here records", names.unknown_record),
    Check("missing-prefix", "info", "a metric without its prefix", names.missing_prefix),
    Check("mixed-prefixes", "warning", "metrics under different prefixes in one operation", names.mixed_prefixes),
    Check("counter-without-total", "error", "a counter without _total", names.counter_without_total),
    Check(
        "histogram-without-part", "error", "a histogram without _bucket, _sum or _count", names.histogram_without_part
    ),
    Check("unknown-label", "error", "a label that the metric does not have", labels.unknown_label),
    Check("unknown-label-value", "error", "a value that the label never has", labels.unknown_label_value),
    Check("rate-of-gauge", "error", "rate, irate or increase of a gauge", counters.rate_of_gauge),
    Check("gauge-function-on-counter", "warning", "delta or deriv of a counter", counters.gauge_function_on_counter),
    Check("lifetime-counter", "error", "a counter since the start of the server", counters.lifetime_counter),
    Check("rate-after-aggregation", "warning", "the rate of a sum", counters.rate_after_aggregation),
    Check("short-range", "warning", "a range of fewer than four scrapes", counters.short_range),
    Check("quantile-without-le", "error", "buckets are aggregated away", histograms.quantile_without_le),
    Check("quantile-of-no-buckets", "error", "histogram_quantile of no buckets", histograms.quantile_of_no_buckets),
    Check("quantile-level", "error", "a quantile beyond 0 to 1", histograms.quantile_level),
    Check("missing-bucket", "error", "a bucket that does not exist", histograms.missing_bucket),
    Check("quantile-beyond-buckets", "error", "a threshold beyond the buckets", histograms.quantile_beyond_buckets),
    Check("average-of-quantiles", "warning", "an average of quantiles", histograms.average_of_quantiles),
    Check("ratio-against-percent", "error", "a ratio compared with per cent", thresholds.ratio_against_percent),
    Check("milliseconds", "warning", "seconds compared with milliseconds", thresholds.milliseconds),
    Check("always-true", "error", "a comparison that is always or never true", thresholds.always_true),
    Check("one-or-nothing", "error", "absent or count compared with 0", thresholds.one_or_nothing),
    Check("bool-comparison", "error", "a comparison that drops no series", thresholds.bool_comparison),
    Check("idle-division", "warning", "a share without a floor of traffic", thresholds.idle_division),
    Check("hides-replica", "warning", "an aggregation that hides a replica", aggregation.hides_replica),
    Check("sum-of-ratios", "error", "a sum of ratios", aggregation.sum_of_ratios),
    Check("never-matches", "error", "sides whose series never match", aggregation.never_matches),
    Check("lost-join-label", "error", "sides joined by a label that one lacks", joins.lost_join_label),
    Check("many-to-many", "error", "a join that Prometheus refuses", joins.many_to_many),
    Check("lost-label", "warning", "a message with a label that is gone", aggregation.lost_label),
    Check("no-for", "warning", "an alert without for", shape.no_for),
    Check("value-in-label", "error", "$value in a label", shape.value_in_label),
    Check("incomplete-alert", "info", "an alert without severity or summary", shape.incomplete_alert),
    Check("absent-guard", "info", "nothing tells that the series are gone", shape.absent_guard),
    Check("dead-series", "warning", "a selector without series", live.dead_series),
)
"""Of rules that ask for series of vLLM, or for what such rules record."""

OF_FILES: tuple[FileCheck, ...] = (
    FileCheck("empty-file", "info", "a file without rules", shape.empty_file),
    FileCheck("unknown-ignore", "warning", "a comment that silences nothing", shape.unknown_ignore),
)
"""Of what belongs to no rule."""

IDS: tuple[str, ...] = (*(check.id for check in (*SHAPE, *ABOUT_VLLM)), *(check.id for check in OF_FILES))
