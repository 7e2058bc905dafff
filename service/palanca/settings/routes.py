"""What of the routes cannot be meant: names that do not exist, and routes that nothing ever reaches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from palanca.alerting.names import RULE
from palanca.errors import Fault, RuleFileError
from palanca.expressions import nearest
from palanca.model import SEVERITY_ORDER
from palanca.render.notice import BLIND_RULE

if TYPE_CHECKING:
    from palanca.loader import Keys
    from palanca.model import Catalogue, Severity
    from palanca.settings.load import Effective
    from palanca.settings.spec import NotifyRoute


def check_routes(made: Effective, catalogue: Catalogue) -> None:
    """Check that the rules and sources of all routes exist. Raises ``RuleFileError`` with every fault."""
    faults = list(_unknown(made, catalogue))
    if faults:
        raise RuleFileError(faults)


def _unknown(made: Effective, catalogue: Catalogue) -> Iterator[Fault]:
    rules = dict.fromkeys([*(rule.id for rule in catalogue.rules), BLIND_RULE])
    sources = dict.fromkeys(one.name for one in made.settings.sources)
    # Flags replace the sources of the file, for a trial; a file without any gets them from there.
    known = sources if "sources" not in made.faulty and made.origin("sources").kind != "flag" else {}
    for index, route in enumerate(made.settings.notify.routes):
        at = ("notify", "routes", index)
        for number, rule in enumerate(route.rule):
            if rule not in rules:
                yield no_rule(made, (*at, "rule", number), rule, rules)
        asked = route.match.get(RULE)
        if asked is not None and asked not in rules:
            yield no_rule(made, (*at, "match", RULE), asked, rules)
        for number, source in enumerate(route.source):
            if known and source not in known:
                yield made.fault((*at, "source", number), f"there is no source {source!r}", _hint(source, known))


def no_rule(made: Effective, at: Keys, rule: str, rules: Mapping[str, object]) -> Fault:
    """Make the fault that there is no such rule among these."""
    return made.fault(at, f"there is no rule {rule!r}", nearest(rule, rules) or "palanca rules list shows them")


def receiver_faults(made: Effective) -> Iterator[Fault]:
    """Find routes to receivers that do not exist."""
    names = made.settings.notify.names
    for index, route in enumerate(made.settings.notify.routes):
        for number, name in enumerate(route.to):
            if name not in names:
                hint = _hint(name, dict.fromkeys(names)) or "add it under notify.slack or webhooks"
                yield made.fault(("notify", "routes", index, "to", number), f"no receiver {name!r}", hint)


def _hint(name: str, known: Mapping[str, object]) -> str:
    return nearest(name, known) or (f"one of {', '.join(known)}" if known else "")


# --- what is odd -----------------------------------------------------------------------------------


def odd_routes(made: Effective, catalogue: Catalogue) -> Iterator[str]:
    """Warn of routes, and links, that have no effect; with their places."""
    settings = made.settings
    routes, path = settings.notify.routes, settings.notify.path
    causes = {rule.id: rule.cause for rule in catalogue.rules}
    for index, route in enumerate(routes):
        at: Keys = ("notify", "routes", index)
        takers = _takers(routes[:index], route)
        if takers:
            named = " and ".join(f"notify.routes[{one}] ({made.origin('notify', 'routes', one)})" for one in takers)
            take = "take" if len(takers) > 1 else "takes"
            hint = "move it up, or give those before it continue: true"
            yield str(made.fault(at, f"notify.routes[{index}] is never reached: {named} {take} all that fits it", hint))
        for number, rule in enumerate(route.rule):
            cause = causes.get(rule)
            if route.cause and cause is not None and cause not in route.cause:
                message = f"the cause of {rule} is {cause}: it never fits this route"
                yield str(made.fault((*at, "rule", number), message, f"add {cause} to cause, or leave cause out"))
        if route.source and path == "alertmanager" and len(settings.sources) > 1:
            message = "what Alertmanager sends does not say of which source it is: this route never fits"
            yield str(made.fault((*at, "source"), message, "match its labels instead: match: {cluster: ...}"))
    link = settings.notify.links.alertmanager
    if link is not None and path == "direct" and not (settings.alertmanager.urls and settings.alertmanager.silences):
        message = "palanca reads no silences, so that messages have no link to make one"
        yield str(made.fault(("notify", "links", "alertmanager"), message, "name it in alertmanager.urls too"))


def _takers(before: Sequence[NotifyRoute], route: NotifyRoute) -> tuple[int, ...]:
    """Which earlier routes take all that fits a route; none where something is left for it."""
    found = []
    for severity in route.severity or SEVERITY_ORDER:
        taker = next((index for index, one in enumerate(before) if _takes(one, route, severity)), None)
        if taker is None:
            return ()
        found.append(taker)
    return tuple(sorted(set(found)))


def _takes(wide: NotifyRoute, narrow: NotifyRoute, severity: Severity) -> bool:
    return (
        not wide.go_on
        and (not wide.severity or severity in wide.severity)
        and wide.match.items() <= narrow.match.items()
        and _within(narrow.source, wide.source)
        and _within(narrow.cause, wide.cause)
        and _within(narrow.rule, wide.rule)
    )


def _within(narrow: Collection[str], wide: Collection[str]) -> bool:
    """Whether one condition is within another; an empty one asks for nothing."""
    return not wide or (bool(narrow) and set(narrow) <= set(wide))
