"""Who may reach the service: anything but loopback needs tokens, or the word that none are wanted."""

from __future__ import annotations

from ipaddress import ip_address

from palanca.errors import UsageError
from palanca.settings.spec import Settings


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address; other names than ``localhost`` are not looked up."""
    plain = host.strip().strip("[]")
    try:
        address = ip_address(plain)
    except ValueError:
        return plain.lower() == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def check_binding(settings: Settings) -> None:
    """Refuse to answer strangers by accident. Raises ``UsageError``."""
    if not is_loopback(settings.listen.host) and not settings.auth.tokens and not settings.auth.disabled:
        raise UsageError(
            f"listening on {settings.listen.host} lets others in, and no token is set; "
            "add one under auth.tokens, listen on 127.0.0.1, or pass --no-auth (auth.disabled: true)"
        )
