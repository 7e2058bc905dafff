"""Dashboards for Grafana, made of signals, thresholds and palanca's own metrics. Pure."""
