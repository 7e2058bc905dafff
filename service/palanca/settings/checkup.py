"""All that can be wrong with settings before the service starts: ``palanca config check``."""

from __future__ import annotations

import ssl
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from palanca.errors import Fault, RuleFileError, UsageError
from palanca.settings.binding import check_binding, is_loopback
from palanca.settings.matches import odd_matches
from palanca.settings.routes import check_routes, odd_routes
from palanca.settings.secrets import read_secrets
from palanca.settings.targets import knowledge, matrix

if TYPE_CHECKING:
    from palanca.loader import Keys
    from palanca.model import Catalogue
    from palanca.settings.load import Effective
    from palanca.settings.spec import Alertmanager, SourceSettings


@dataclass(frozen=True)
class Checked:
    """What is wrong, and what is only odd."""

    faults: tuple[Fault, ...]
    warnings: tuple[str, ...]


def check_all(made: Effective) -> Checked:
    """Check settings, rules, secrets and certificates; reads files, reaches for no server."""
    faults, warnings = list(made.faults), list(_odd(made))
    catalogue = None
    overlay = made.settings.rules
    if overlay is not None and not overlay.is_dir():
        faults.append(made.fault(("rules",), f"{overlay} is not a folder", "rules names a folder of rule files"))
        overlay = None
    try:
        catalogue, hardware = matrix(overlay)
        knowledge(made, catalogue, hardware)
    except RuleFileError as error:
        faults += error.faults
    if catalogue is not None:
        try:
            check_routes(made, catalogue)
        except RuleFileError as error:
            faults += error.faults
    try:
        warnings += read_secrets(made).warnings
    except RuleFileError as error:
        faults += error.faults
    more, odd = _certificates(made)
    faults += more
    warnings += odd
    try:
        if "auth" not in made.faulty:
            check_binding(made.settings)
    except UsageError as error:
        message, _, hint = str(error).partition("; ")
        faults.append(made.fault(("listen", "host"), message, hint))
    if catalogue is not None:
        warnings += [*_without_effect(made, catalogue), *odd_routes(made, catalogue), *odd_matches(made)]
    return Checked(tuple(sorted(set(faults))), tuple(warnings))


# --- files -----------------------------------------------------------------------------------------


def _certificates(made: Effective) -> tuple[list[Fault], list[str]]:
    faults, warnings = [], []
    for keys, certificate, key in _pairs(made):
        reason = _unusable(certificate) or (key and _unusable(key)) or _no_pair(certificate, key)
        if reason:
            faults.append(made.fault(keys, reason, "PEM files are needed, and the key without a password"))
        elif key is not None and key.stat().st_mode & stat.S_IROTH:
            warnings.append(f"{key} can be read by everybody; chmod o-r {key}")
    for keys, path in _authorities(made):
        reason = _unusable(path) or _no_authorities(path)
        if reason:
            faults.append(made.fault(keys, reason, "a PEM file with certificates is needed"))
    return faults, warnings


def _pairs(made: Effective) -> Iterator[tuple[Keys, Path, Path | None]]:
    """Certificates with their keys, and where the settings name them."""
    tls = made.settings.listen.tls
    if tls is not None:
        yield ("listen", "tls", "cert_file"), tls.cert_file, tls.key_file
    for at, one in _reached(made):
        if one.client_cert is not None:
            yield (*at, "client_cert"), one.client_cert, one.client_key


def _authorities(made: Effective) -> Iterator[tuple[Keys, Path]]:
    tls, notify = made.settings.listen.tls, made.settings.notify
    named: list[tuple[Keys, Path | None]] = [
        (("listen", "tls", "client_ca_file"), tls.client_ca_file if tls is not None else None),
        *(((*at, "ca_file"), one.ca_file) for at, one in _reached(made)),
        *((("notify", "slack", index, "ca_file"), one.ca_file) for index, one in enumerate(notify.slack)),
        *((("notify", "webhooks", index, "ca_file"), one.ca_file) for index, one in enumerate(notify.webhooks)),
    ]
    yield from ((keys, path) for keys, path in named if path is not None)


def _reached(made: Effective) -> Iterator[tuple[Keys, SourceSettings | Alertmanager]]:
    """What is reached over HTTP with certificates of one's own."""
    for index, source in enumerate(made.settings.sources):
        yield ("sources", index), source
    yield ("alertmanager",), made.settings.alertmanager


def _unusable(path: Path) -> str:
    try:
        with path.open("rb"):
            return ""
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}"


def _no_pair(certificate: Path, key: Path | None) -> str:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key, password=lambda: b"")
    except (OSError, ValueError) as error:  # SSLError is an OSError
        return f"{certificate} and its key cannot be used: {_reason(error)}"
    return ""


def _no_authorities(path: Path) -> str:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except (OSError, ValueError) as error:
        return f"{path} has no certificates that can be used: {_reason(error)}"
    return ""


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error).lower().replace("_", " ")


# --- what is odd -----------------------------------------------------------------------------------


def _odd(made: Effective) -> Iterator[str]:
    settings = made.settings
    if settings.auth.disabled and settings.auth.tokens:
        yield f"{made.origin('auth', 'disabled')}: auth.disabled lets everybody in; the tokens are not asked for"
    if not is_loopback(settings.listen.host) and settings.auth.tokens and settings.listen.tls is None:
        yield (
            f"{made.origin('listen', 'host')}: tokens come over plain HTTP; "
            "set listen.tls, or put a proxy with TLS in front"
        )
    seen: dict[tuple[tuple[str, str], ...], str] = {}
    for index, source in enumerate(settings.sources):
        other = seen.setdefault(tuple(sorted(source.labels.items())), source.name)
        if other != source.name:
            at = made.origin("sources", index)
            yield f"{at}: sources {other} and {source.name} have the same labels; their targets may be taken for one"
        if any(url.has_credentials for url in source.addresses):
            at = made.origin("sources", index)
            yield f"{at}: a password stands in the URL of source {source.name}; basic_file keeps it out of this file"
        if source.insecure:
            yield f"{made.origin('sources', index, 'insecure')}: the certificate of {source.name} is not checked"
    told = settings.alertmanager
    if any(url.has_credentials for url in told.urls):
        at = made.origin("alertmanager", "urls")
        yield f"{at}: a password stands in the URL of an Alertmanager; basic_file keeps it out of this file"
    if told.insecure and told.urls:
        yield f"{made.origin('alertmanager', 'insecure')}: the certificates of the Alertmanagers are not checked"


def _without_effect(made: Effective, catalogue: Catalogue) -> Iterator[str]:
    """Thresholds that change nothing, or look like a slip of the unit."""
    rules = {rule.id: rule for rule in catalogue.rules}
    entries = made.settings.thresholds
    for index, entry in enumerate(entries):
        for rule, values in entry.rules.items():
            for name, value in values.items():
                spec = rules[rule].thresholds.get(name) if rule in rules else None
                at = made.origin("thresholds", index, "rules", rule, name)
                later = next(
                    (
                        made.origin("thresholds", number, "rules", rule, name)
                        for number, other in enumerate(entries)
                        if number > index and name in other.rules.get(rule, {}) and _covers(other.match, entry.match)
                    ),
                    None,
                )
                if later is not None:
                    yield f"{at}: {rule} {name} is set again for all these targets ({later})"
                elif spec is not None and spec.unit == "ratio" and spec.value <= 1 < value:
                    yield f"{at}: {rule} {name} is a ratio; {value:g} is more than all (the rule says {spec.value:g})"
                elif spec is not None and spec.value == value and not _earlier(made, index, rule, name):
                    yield f"{at}: {rule} {name} is {value:g} without this as well"


def _covers(wide: Mapping[str, str], narrow: Mapping[str, str]) -> bool:
    return wide.items() <= narrow.items()


def _earlier(made: Effective, index: int, rule: str, name: str) -> bool:
    return any(name in other.rules.get(rule, {}) for other in made.settings.thresholds[:index])
