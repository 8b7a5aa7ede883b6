"""Which workflows this process knows: named by setting, or found by entry point in the user's own packages."""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import entry_points

from django.conf import settings

from workflows.authoring import Workflow

ENTRY_POINT_GROUP = "counterfoil.workflows"


class NoSuchWorkflow(Exception):
    """No workflow of this name is installed here."""


class RevisionMissing(Exception):
    """The workflow is known, but not in the revision or configuration that the job pinned."""


@cache
def workflows() -> dict[tuple[str, str], Workflow]:
    """Every workflow by (name, revision), in the order of the settings."""
    modules = [importlib.import_module(path) for path in settings.COUNTERFOIL_WORKFLOWS]
    modules += [e.load() for e in entry_points(group=ENTRY_POINT_GROUP)]
    found: dict[tuple[str, str], Workflow] = {}
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, Workflow):
                found[value.name, value.revision] = value
    return found


@cache
def digests() -> dict[tuple[str, str], str]:
    """The configuration digest of each."""
    return {key: w.configuration_digest() for key, w in workflows().items()}


def current(name: str) -> Workflow:
    """The newest revision of a workflow; new jobs pin it."""
    found = [w for (n, _), w in workflows().items() if n == name]
    if not found:
        names = ", ".join(sorted({n for n, _ in workflows()})) or "none"
        raise NoSuchWorkflow(f'There is no workflow "{name}" here. Installed: {names}.')
    return found[-1]


def pinned(name: str, revision: str, digest: str) -> Workflow:
    """Exactly the definition that a job pinned, or RevisionMissing."""
    workflow = workflows().get((name, revision))
    if workflow is None:
        raise RevisionMissing(f"{name} revision {revision} is not deployed here.")
    if digests()[name, revision] != digest:
        raise RevisionMissing(f"{name} revision {revision} is deployed here with another configuration.")
    return workflow
