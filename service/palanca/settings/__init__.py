"""Settings: one YAML file, environment variables and flags.

    flags  >  PALANCA_... variables  >  file  >  defaults

``load`` gives the settings with the origin of each value and raises all faults at once, as file:line:column or with the
name of the variable. What the rules must know (thresholds, objectives, flags) is checked by ``knowledge``; secrets are
read by ``read_secrets``, and by nothing else.
"""

from __future__ import annotations

from palanca.settings.binding import check_binding, is_loopback
from palanca.settings.load import Effective, Flag, examine, load, load_settings, settings_file
from palanca.settings.places import Origin
from palanca.settings.reload import RESTART, Change, changed
from palanca.settings.routes import check_routes
from palanca.settings.scalars import Address, Database
from palanca.settings.schema import to_json_schema, to_markdown
from palanca.settings.secrets import (
    NamedToken,
    ReceiverSecrets,
    Secrets,
    SourceSecrets,
    read_secret,
    read_secrets,
)
from palanca.settings.show import show
from palanca.settings.spec import (
    Alertmanager,
    Auth,
    History,
    Listen,
    Log,
    ModelThresholds,
    Notify,
    NotifyRoute,
    QuietHours,
    Settings,
    SlackReceiver,
    SourceSettings,
    TargetSettings,
    Tls,
    Token,
    WebhookReceiver,
)
from palanca.settings.targets import (
    Knowledge,
    TargetFacts,
    TargetThresholds,
    facts_for,
    knowledge,
    load_targets,
    matrix,
    thresholds_for,
)

__all__ = [
    "RESTART",
    "Address",
    "Alertmanager",
    "Auth",
    "Change",
    "Database",
    "Effective",
    "Flag",
    "History",
    "Knowledge",
    "Listen",
    "Log",
    "ModelThresholds",
    "NamedToken",
    "Notify",
    "NotifyRoute",
    "Origin",
    "QuietHours",
    "ReceiverSecrets",
    "Secrets",
    "Settings",
    "SlackReceiver",
    "SourceSecrets",
    "SourceSettings",
    "TargetFacts",
    "TargetSettings",
    "TargetThresholds",
    "Tls",
    "Token",
    "WebhookReceiver",
    "changed",
    "check_binding",
    "check_routes",
    "examine",
    "facts_for",
    "is_loopback",
    "knowledge",
    "load",
    "load_settings",
    "load_targets",
    "matrix",
    "read_secret",
    "read_secrets",
    "settings_file",
    "show",
    "thresholds_for",
    "to_json_schema",
    "to_markdown",
]
