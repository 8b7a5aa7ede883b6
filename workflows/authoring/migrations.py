"""How a job of an earlier revision goes on under a later one: declared on the later one, tried before it is done.

    from_1 = refunds.migrate(from_revision="1")

    @from_1.input
    def with_currency(old: dict[str, Any]) -> dict[str, Any]:
        return {**old, "currency": "EUR"}

    @from_1.convert(weigh, was="assess")
    def weighed(old: dict[str, Any]) -> dict[str, Any]:
        return {"order": old["order"], "due": old["amount"]}

    from_1.again(propose)

A step that is not named here keeps what an earlier step of the same name saved, and runs where there was none. Whatever
is kept has to fit the later revision's types, or the job stays as it is. The functions are given JSON values; they may
be called for a look only, and must not ask anybody anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workflows.authoring.policies import BadDefinition
from workflows.authoring.steps import Step

if TYPE_CHECKING:
    from workflows.authoring.workflow import Workflow

Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Origin:
    """What becomes of one step of the later revision: the results of the step `was`, as they are or converted.

    `again`: it runs (again), whatever there was.
    """

    was: str
    convert: Convert | None = None
    again: bool = False


@dataclass(frozen=True, eq=False)
class Migration:
    """A declared way from one revision to the one that it is declared on.

    Each of its declarations raises BadDefinition for a step of another revision, or one that is spoken of twice.
    """

    workflow: Workflow
    from_revision: str
    origins: dict[str, Origin] = field(default_factory=dict)
    inputs: list[Convert] = field(default_factory=list)

    def input(self, convert: Convert) -> Convert:
        """How the job's input is converted: `(old)`, returning what fits the later revision's input. Once."""
        if self.inputs:
            raise BadDefinition(f"{self._told}: the input is converted once")
        self.inputs.append(convert)
        return convert

    def keep(self, step: Step, *, was: str) -> None:
        """`step` is what the earlier revision called `was`; what that saved stays as it is."""
        self._declare(step, Origin(was))

    def convert(self, step: Step, *, was: str = "") -> Callable[[Convert], Convert]:
        """How each saved result of the earlier step `was` (or of the same name) becomes one of `step`: `(old)`."""

        def add(convert: Convert) -> Convert:
            self._declare(step, Origin(was or step.name, convert))
            return convert

        return add

    def again(self, *steps: Step) -> None:
        """These steps run anew; what an earlier step of the same name saved is set aside and stays readable."""
        for step in steps:
            self._declare(step, Origin("", again=True))

    def origin_of(self, step: Step) -> Origin:
        """What becomes of a step; one that nothing is said of keeps what a step of its name saved."""
        taken = {origin.was for origin in self.origins.values()}
        return self.origins.get(step.name) or Origin("" if step.name in taken else step.name)

    def convert_input(self, old: Any) -> Any:
        """The job's input as the later revision takes it."""
        return self.inputs[0](old) if self.inputs else old

    def _declare(self, step: Step, origin: Origin) -> None:
        if self.workflow.step_named(step.name) is not step:
            raise BadDefinition(f"{self._told}: {step.name} is no step of revision {self.workflow.revision}")
        if step.name in self.origins:
            raise BadDefinition(f"{self._told}: {step.name} is spoken of twice")
        if origin.was and any(origin.was == other.was for other in self.origins.values()):
            raise BadDefinition(f"{self._told}: two steps cannot both be what {origin.was} was")
        self.origins[step.name] = origin

    @property
    def _told(self) -> str:
        return f"{self.workflow.name}, from revision {self.from_revision} to {self.workflow.revision}"
