"""Which addresses may be outside: checked when one is saved, and again for the address that is connected to.

A name is resolved once, and that very address is connected to, so that a second answer of the name server cannot move
the request inside. COUNTERFOIL_INTERNAL_RECEIVERS says which receivers and endpoints may be inside all the same, each
with its host as it stands in the address ("acme/ledger=erp.internal") or a network ("acme/ledger=10.20.0.0/16"); "*" for
the name is whoever asks. Nothing else lets an organisation reach what only this installation can.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Collection, Iterable, Iterator
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

_NAME = re.compile(r"(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
HTTP = ("http", "https")
_WHO = re.compile(r"[A-Za-z0-9_-]+(/endpoint)?/[^=,/]+")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""NAT64: the last four bytes are an IPv4 address, which a gateway connects to."""
_OUTSIDE = ipaddress.IPv6Network("2000::/3")
"""All that is given out to be reached over IPv6. Beyond it stand old forms that carry an IPv4 address, and nothing."""
_NOWHERE: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = (
    ipaddress.IPv4Network("192.0.0.0/24"),
    ipaddress.IPv4Network("192.88.99.0/24"),
    ipaddress.IPv6Network("3fff::/20"),
)
"""Set aside for protocols and examples, and taken for global by `ipaddress`."""


class AddressRefused(Exception):
    """Nothing is sent to this address; the message says why."""


def check_url(url: str, who: str = "", schemes: Collection[str] = HTTP) -> SplitResult:
    """The parts of an address that `who` ("organisation/receiver") may be at, or AddressRefused. Asks no name server."""
    parts = well_formed(url, schemes)
    literal = _literal(parts.hostname or "")
    if literal is not None:
        _check_address(parts.hostname or "", literal, who)
    return parts


def well_formed(url: str, schemes: Collection[str] = HTTP) -> SplitResult:
    """The parts of what is written as an address should be, wherever it leads; or AddressRefused."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as bad:
        raise AddressRefused(f"{url!r} is no address: {bad}.") from None
    if parts.scheme not in schemes or not parts.hostname or port == 0:
        known = " or ".join(f"{scheme}://" for scheme in sorted(schemes))
        raise AddressRefused(f"An address begins with {known} and names a host.")
    if parts.username is not None or parts.password is not None:
        raise AddressRefused("An address holds no user and no password.")
    if any(c.isspace() or ord(c) < 33 for c in url):
        raise AddressRefused("An address has no spaces or control characters.")
    if _literal(parts.hostname) is None and not _NAME.fullmatch(parts.hostname):
        raise AddressRefused(f"{parts.hostname} is neither a host's name nor an address in its usual form.")
    return parts


def resolve(host: str, port: int, who: str = "") -> str:
    """One address of `host` that `who` may connect to, or AddressRefused. OSError where the name is not known."""
    literal = _literal(host)
    if literal is not None:
        _check_address(host, literal, who)
        return str(literal)
    if not _NAME.fullmatch(host.lower()):
        raise AddressRefused(f"{host} is not a host's name.")
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # Every answer has to pass: one that points inside is a reason to distrust the others.
    addresses = [ipaddress.ip_address(str(row[4][0]).split("%")[0]) for row in found]
    for address in addresses:
        _check_address(host, address, who)
    return str(next((a for a in addresses if a.version == 4), addresses[0]))


def _literal(host: str) -> Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return address


def _check_address(host: str, address: Address, who: str) -> None:
    if isinstance(address, ipaddress.IPv6Address) and (
        address.ipv4_mapped or address.sixtofour or address.teredo
    ):
        raise AddressRefused(f"{host} hides one address in another.")
    if isinstance(address, ipaddress.IPv6Address) and address in _TRANSLATED:
        address = ipaddress.IPv4Address(address.packed[-4:])
    if _is_outside(address):
        return
    if not _intended(host.lower(), address, who):
        name = who or "…"
        raise AddressRefused(
            f"{host} points inside ({address}). Whoever runs this installation allows it by"
            f" COUNTERFOIL_INTERNAL_RECEIVERS={name}={host}."
        )


def _is_outside(address: Address) -> bool:
    if address.version == 6 and address not in _OUTSIDE:
        return False
    return address.is_global and not address.is_multicast and not any(address in net for net in _NOWHERE)


def _intended(host: str, address: Address, who: str) -> bool:
    for entry in settings.COUNTERFOIL_INTERNAL_RECEIVERS:
        name, _, where = entry.partition("=")
        if name not in ("*", who):
            continue
        if "/" in where:
            if address in ipaddress.ip_network(where, strict=False):
                return True
        elif host == where.lower():
            return True
    return False


def faults_of_entries(entries: Iterable[str]) -> Iterator[str]:
    """What is wrong with each entry of COUNTERFOIL_INTERNAL_RECEIVERS, as a sentence."""
    for entry in entries:
        name, _, where = entry.partition("=")
        if not where or not (name == "*" or _WHO.fullmatch(name)):
            yield f"{entry!r} has to say for whom: organisation/receiver={name or 'host'}, or *={name or 'host'}."
        elif "/" in where:
            try:
                ipaddress.ip_network(where, strict=False)
            except ValueError:
                yield f"{entry!r} names no network: {where}."
        elif _literal(where) is None and not _NAME.fullmatch(where.lower()):
            yield f"{entry!r} names neither a host nor a network: {where}."
