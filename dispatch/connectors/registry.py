"""Which connectors this process has: those that ship, and those of the user's packages, found by entry point.

    [project.entry-points."counterfoil.connectors"]
    dynamodb = "my_package.dynamodb:DynamoDB"

The name is what contracts say; what it leads to is a connector, or a class that makes one without arguments. A package
that cannot be loaded takes down nothing but its own: it is told in the log and wherever its connector is asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from dispatch.connectors.http import HttpConnector
from dispatch.connectors.seam import Connector
from dispatch.connectors.smtp import SmtpConnector
from dispatch.contracts import Contract

log = logging.getLogger(__name__)
ENTRY_POINT_GROUP = "counterfoil.connectors"
_ASKED = ("schemes", "calls_barrier", "problems", "credentials", "render", "send", "read", "look_up")


class NoSuchConnector(Exception):
    """This process has no connector of that name; a sentence."""


def connector(name: str) -> Connector:
    """The connector that a contract names, or NoSuchConnector."""
    found = connectors().get(name)
    if found is None:
        names = ", ".join(sorted(connectors()))
        raise NoSuchConnector(f'There is no connector "{name}" here. Installed: {names}.')
    return found


def faults_of(contract: Contract) -> list[str]:
    """Why a contract is not to be written: its connector is not here, or cannot do what it says. Sentences."""
    try:
        return list(connector(contract.connector).problems(contract))
    except NoSuchConnector as missing:
        return [str(missing)]


def schemes() -> frozenset[str]:
    """How the addresses of receivers may begin, over all connectors."""
    return frozenset(scheme for one in connectors().values() for scheme in one.schemes)


@cache
def connectors() -> Mapping[str, Connector]:
    """Every connector by name. A package cannot replace one that ships."""
    found: dict[str, Connector] = {"http": HttpConnector(), "smtp": SmtpConnector()}
    for entry, loaded in _loaded():
        if entry.name in found:
            log.error("The connector %s of %s is not used: the name is taken.", entry.name, entry.value)
        else:
            found[entry.name] = loaded
    return found


def _loaded() -> Iterator[tuple[EntryPoint, Connector]]:
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda e: (e.name, e.value)):
        try:
            given = entry.load()
            made = given() if isinstance(given, type) else given
        except (Exception, SystemExit) as error:  # somebody else's code: only its own receivers stand still
            log.error("The connector %s (%s) cannot be loaded", entry.name, entry.value, exc_info=error)
            continue
        missing = [name for name in _ASKED if not hasattr(made, name)]
        if missing:
            log.error("The connector %s (%s) lacks %s.", entry.name, entry.value, ", ".join(missing))
        else:
            yield entry, made
