"""Which workflows this process knows: named by setting, or found by entry point in the user's own packages.

A package that cannot be loaded takes down nothing but its own workflows: it is told in the log, by `manage.py check`
and wherever one of its workflows is asked for, and every other package is served.
"""

from __future__ import annotations

import importlib
import logging
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

from django.conf import settings

from workflows.authoring import Workflow

log = logging.getLogger(__name__)
ENTRY_POINT_GROUP = "counterfoil.workflows"


class NoSuchWorkflow(Exception):
    """No workflow of this name is installed here."""


class RevisionMissing(Exception):
    """The workflow is known, but not in the revision or configuration that the job pinned."""


class NoCurrentRevision(Exception):
    """Several revisions are loaded, and not exactly one of them says that new jobs take it."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """Something that should have given workflows and did not, or not all of them. `why` is a sentence."""

    source: str
    why: str

    def __str__(self) -> str:
        return f"{self.source}: {self.why}"


class Installed(dict[tuple[str, str], Workflow]):
    """Every workflow by (name, revision), what could not be used, and what is defined twice: no process starts so."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: dict[tuple[str, str], str] = {}
        self.unusable: list[Unusable] = []
        self.twice: list[Unusable] = []


@cache
def workflows() -> Installed:
    """Every workflow by (name, revision): those of the settings first, in their order, then those of packages."""
    found = Installed()
    for source, load in _sources():
        try:
            _take(found, source, _workflows_in(load()))
        except (Exception, SystemExit) as error:
            log.error("%s cannot be loaded", source, exc_info=error)
            found.unusable.append(Unusable(source, _why(error)))
    return found


@cache
def digests() -> dict[tuple[str, str], str]:
    """The configuration digest of each."""
    return {key: w.configuration_digest() for key, w in workflows().items()}


def current(name: str) -> Workflow:
    """The revision of a workflow that new jobs pin: the only one, or the one that says `current=True`.

    Raises NoSuchWorkflow; NoCurrentRevision, with which no process starts.
    """
    found = [w for (n, _), w in workflows().items() if n == name]
    if not found:
        names = ", ".join(sorted({n for n, _ in workflows()})) or "none"
        lost = " Some packages of workflows could not be loaded." if workflows().unusable else ""
        raise NoSuchWorkflow(f'There is no workflow "{name}" here. Installed: {names}.{lost}')
    marked = found if len(found) == 1 else [w for w in found if w.current]
    if len(marked) != 1:
        revisions = " and ".join(w.revision for w in (marked or found))
        said = "each say current=True" if marked else "are loaded, and none says current=True"
        raise NoCurrentRevision(f"{name}: revisions {revisions} {said}. New jobs take one: mark that one.")
    return marked[0]


def compensating(name: str) -> Workflow | None:
    """The workflow whose jobs take back what jobs of this one did, or None. Of several the first by name."""
    names = sorted({n for (n, _), w in workflows().items() if name in w.compensates})
    found = (current(n) for n in names)
    return next((w for w in found if name in w.compensates), None)


def pinned(name: str, revision: str, digest: str) -> Workflow:
    """Exactly the definition that a job pinned, or RevisionMissing."""
    workflow = workflows().get((name, revision))
    if workflow is None:
        lost = "".join(f" Not loaded: {u}" for u in workflows().unusable)
        raise RevisionMissing(f"{name} revision {revision} is not deployed here.{lost}")
    if not runs(workflow, digest):
        raise RevisionMissing(f"{name} revision {revision} is deployed here with another configuration.")
    return workflow


def runs(workflow: Workflow, digest: str) -> bool:
    """Whether jobs that pinned this digest under the workflow's revision go on with it as it is here."""
    own = digests()[workflow.name, workflow.revision]
    return digest == own or digest.startswith(workflow.compatible_with)


def _sources() -> Iterator[tuple[str, Callable[[], Any]]]:
    for path in settings.COUNTERFOIL_WORKFLOWS:
        yield f"The module {path} (COUNTERFOIL_WORKFLOWS)", partial(importlib.import_module, path)
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda e: (_package(e), e.name, e.value)):
        yield f"The package {_package(entry)} ({entry.value})", entry.load


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "without a name"


def _workflows_in(loaded: Any) -> list[Workflow]:
    if isinstance(loaded, Workflow):
        return [loaded]
    if not isinstance(loaded, ModuleType):
        raise TypeError(f"a module or a Workflow is meant, and this is of type {type(loaded).__name__}")
    return [value for value in vars(loaded).values() if isinstance(value, Workflow)]


def _take(found: Installed, source: str, defined: list[Workflow]) -> None:
    if not defined:
        found.unusable.append(Unusable(source, "it defines no workflow."))
    for workflow in defined:
        key = workflow.name, workflow.revision
        told = f"{workflow.name} revision {workflow.revision}"
        if not workflow.approval:
            found.unusable.append(Unusable(source, f"{told} has no propose, so its jobs would never end."))
        elif key not in found:
            found[key], found.sources[key] = workflow, source
        elif found[key] is not workflow:
            first = found.sources[key]
            where = "earlier" if first == source else f"by {first[0].lower()}{first[1:]}"
            why = f"it defines {told}, which is defined {where}. Give one of the two another revision."
            found.twice.append(Unusable(source, why))


def _why(error: BaseException) -> str:
    """What went wrong at which line, in one sentence: the whole of it is in the log."""
    told = " ".join(str(error).split()) or type(error).__name__
    places = traceback.extract_tb(error.__traceback__)
    ours = [p for p in places if "importlib" not in p.filename and p.filename != __file__]
    at = f" at {ours[-1].filename}, line {ours[-1].lineno}" if ours else ""
    return f"{type(error).__name__}{at}: {told[:500]}."
