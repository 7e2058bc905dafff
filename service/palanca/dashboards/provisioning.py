"""Files that let Grafana find the dashboards and their data by itself, as the compose stack uses them."""

from __future__ import annotations

from collections.abc import Mapping

from palanca.alerting.text import document

FOLDER = "/etc/grafana/dashboards"
"""Where the exported folder is to be mounted."""

_PROVIDER = {
    "apiVersion": 1,
    "providers": [
        {"name": "palanca", "folder": "palanca", "type": "file", "allowUiUpdates": False, "options": {"path": FOLDER}}
    ],
}
_SOURCES = {
    "apiVersion": 1,
    "datasources": [
        {
            "name": "Prometheus",
            "uid": "prometheus",
            "type": "prometheus",
            "access": "proxy",
            "url": "http://prometheus:9090",
            "isDefault": True,
            "jsonData": {"httpMethod": "POST", "timeInterval": "15s"},
        },
        {
            "name": "Alertmanager",
            "uid": "alertmanager",
            "type": "alertmanager",
            "access": "proxy",
            "url": "http://alertmanager:9093",
            "jsonData": {"implementation": "prometheus"},
        },
        {
            "name": "palanca",
            "uid": "palanca",
            "type": "yesoreyeram-infinity-datasource",
            "access": "proxy",
            "url": "http://palanca:9797",
            "jsonData": {
                "auth_method": "bearerToken",
                "allowedHosts": ["http://palanca:9797"],
                "timeoutInSeconds": 30,
            },
            "secureJsonData": {"bearerToken": "$__file{/run/secrets/palanca_read}"},
        },
    ],
}
_HOSTS = "Hosts and files are those of the compose stack; timeInterval is how often Prometheus scrapes."

PROVISIONING: Mapping[str, str] = {
    "provisioning/dashboards/palanca.yaml": document(_PROVIDER, ["Mount the folder of the dashboards there."]),
    "provisioning/datasources/palanca.yaml": document(_SOURCES, [_HOSTS]),
}
"""Paths below the exported folder, and what they have."""
