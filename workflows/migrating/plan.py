"""What a migration would do to one job, and how that reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from workflows.authoring import Workflow
from workflows.authoring.migrations import Convert
from workflows.authoring.steps import Step
from workflows.migrating.spool import Spool

Shape = tuple[tuple[int, bool, int], ...]
"""The job's stages as they were looked at: id, whether closed, and how many results of a single step."""


class Becomes(StrEnum):
    """What becomes of one step."""

    KEPT = "kept"  # its results stay as they are
    CONVERTED = "converted"  # the next version of each is what the later revision takes
    AGAIN = "made again"  # it runs under the later revision; what was saved is set aside
    NEW = "new"  # it runs; the earlier revision had no such step, or had not come to it
    ASIDE = "set aside"  # the later revision has no such step; what was saved stays readable
    IN_THE_WAY = "in the way"  # the job cannot be migrated like this


LISTED = 10
"""So many results of one step are listed one by one; of the others it is said how many they are."""

SHORT = 60
"""A result in a list is cut after so many characters."""


def in_short(text: str) -> str:
    """The beginning of a result, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= SHORT else f"{line[: SHORT - 1]}…"


@dataclass(frozen=True, slots=True)
class ResultFate:
    """What becomes of one saved result. `was` and `then` are its beginning before and after; `why` is what is in the way."""

    ordinal: int
    key: str
    becomes: Becomes
    was: str
    then: str = ""
    why: str = ""

    @property
    def sentence(self) -> str:
        """What happens to it, for people."""
        if self.then:
            return f"{self.was} → {self.then}"
        return f"{self.was}: {self.why}" if self.why else self.was


@dataclass(frozen=True, slots=True)
class StepFate:
    """One line of a preview. `saved` results are kept or converted (or set aside); `left` items run (again).

    `results` are the first of what was saved, each with its own fate, those in the way before others; `unlisted` is the
    number of the rest.
    """

    name: str
    title: str
    becomes: Becomes
    was: str = ""
    saved: int = 0
    left: int = 0
    why: str = ""
    results: tuple[ResultFate, ...] = ()
    unlisted: int = 0

    @property
    def sentence(self) -> str:
        """What happens, for people."""
        return " ".join(part for part in (self._head(), self._tail()) if part)

    def _head(self) -> str:
        results = "1 result" if self.saved == 1 else f"{self.saved:,} results"
        renamed = f" of “{self.was}”" if self.was and self.was != self.name else ""
        match self.becomes:
            case Becomes.KEPT:
                return f"{results}{renamed} kept as {'it is' if self.saved == 1 else 'they are'}."
            case Becomes.CONVERTED:
                return f"{results}{renamed} converted."
            case Becomes.AGAIN:
                return f"Runs again; {results}{renamed} set aside." if self.saved else "Begins again."
            case Becomes.NEW:
                return "Runs when its turn comes."
            case Becomes.ASIDE:
                return f"No step of the new revision takes it: {results} set aside."
        return self.why

    def _tail(self) -> str:
        if not self.left or self.becomes not in (Becomes.KEPT, Becomes.CONVERTED):
            return ""
        verbs = "is not done runs" if self.left == 1 else "are not done run"
        return f"{self.left:,} that {verbs} under the new revision."


@dataclass(frozen=True, slots=True)
class InputFate:
    """What becomes of the job's input; `text` is empty where it stays as it is."""

    text: str = ""
    digest: str = ""
    why: str = ""

    @property
    def becomes(self) -> Becomes:
        """What becomes of it, in a word."""
        if self.why:
            return Becomes.IN_THE_WAY
        return Becomes.CONVERTED if self.text else Becomes.KEPT

    @property
    def sentence(self) -> str:
        """The same for people."""
        return self.why or ("Converted; what was submitted stays." if self.text else "Kept as it is.")


@dataclass(frozen=True, slots=True)
class Keep:
    """A stage that stays, as a step of the later revision. `partly`: its other items are set aside and made anew."""

    stage_id: int
    was: str
    step: Step
    convert: Convert | None
    partly: bool
    seen: int
    """The newest checkpoint that was looked at; those that came after are looked at when it is applied."""


@dataclass(slots=True)
class Plan:
    """What would be done to a job, from a look at its rows. `why` says what stands in the way of all of it."""

    job_id: int
    label: str
    state: str
    from_revision: str
    target: Workflow
    version: int
    shape: Shape
    why: str = ""
    input: InputFate = InputFate()
    steps: list[StepFate] = field(default_factory=list)
    keeps: list[Keep] = field(default_factory=list)
    aside: list[int] = field(default_factory=list)
    first: Step | None = None
    """The step that is opened, where none that is kept is open already."""

    validates: bool = False
    """The input is validated (again) by the later revision, before any step."""

    converted: Spool = field(default_factory=Spool)
    elements: Spool = field(default_factory=Spool)

    @property
    def problems(self) -> list[str]:
        """Everything that stands in the way, in sentences."""
        found = [self.why] if self.why else []
        found += [f"The input: {self.input.why}"] if self.input.why else []
        return found + [f"{f.title}: {f.why}" for f in self.steps if f.becomes is Becomes.IN_THE_WAY]

    @property
    def possible(self) -> bool:
        """Whether nothing stands in the way."""
        return not self.problems

    def close(self) -> None:
        """Forget what was converted."""
        self.converted.close()
        self.elements.close()
