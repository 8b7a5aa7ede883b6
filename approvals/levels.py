"""Which level of a policy is open, who belongs to it, and whether the people there are could fill what is missing. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from access.directory import Member
from approvals.models import Decision, Escalated
from approvals.ruleset import Level, RuleSet


@dataclass(frozen=True, slots=True)
class Seats:
    """One level and how many signatures it lacks. `number`: its place in the frozen policy from 1; 0 in today's."""

    number: int
    level: Level
    missing: int

    @property
    def name(self) -> str:
        """What people call it."""
        if self.level.name:
            return self.level.name
        return f"level {self.number}" if self.number else "today's policy"


@dataclass(frozen=True, slots=True)
class Standing:
    """What the frozen policy lacks, and what today's lacks, in order; both empty when the proposal is complete."""

    frozen: tuple[Seats, ...]
    current: tuple[Seats, ...]

    @property
    def open(self) -> Seats | None:
        """The level that signs next: of the frozen policy first, then of today's where that asks for more."""
        return next(iter((*self.frozen, *self.current)), None)

    @property
    def missing(self) -> int:
        """Signatures that are lacking at least."""
        return max(sum(s.missing for s in self.frozen), sum(s.missing for s in self.current))

    @property
    def seats(self) -> list[str]:
        """Who has to sign still, one a signature: the group that is asked for, or nothing for any manager."""
        longer = max(self.frozen, self.current, key=lambda seats: sum(s.missing for s in seats))
        return [s.level.group for s in longer for _ in range(s.missing)]


def standing(
    frozen: RuleSet, current: RuleSet, approvals: Sequence[tuple[Decision, Member]], belongs: Belongs
) -> Standing:
    """Where a proposal stands after these approvals that count, each with whose authority was used; oldest first.

    A signature counts for the level of the frozen policy that it was given for. Today's policy, where it differs, is
    walked anew: each signature fills the first level that lacks one, if its owner belongs there.
    """
    now = () if current == frozen else _walk(current, approvals, belongs)
    return Standing(_counted(frozen, approvals), now)


def _counted(rules: RuleSet, approvals: Sequence[tuple[Decision, Member]]) -> tuple[Seats, ...]:
    if rules.waives_approval:
        return ()
    found = []
    for number, level in enumerate(rules.levels, start=1):
        lacking = level.quorum - sum(decision.level == number for decision, _ in approvals)
        if lacking > 0:
            found.append(Seats(number, level, lacking))
    return tuple(found)


def _walk(
    rules: RuleSet, approvals: Sequence[tuple[Decision, Member]], belongs: Belongs
) -> tuple[Seats, ...]:
    if rules.waives_approval:
        return ()
    lacking = [level.quorum for level in rules.levels]
    for _, member in approvals:
        at = next((i for i, number in enumerate(lacking) if number), None)
        if at is not None and belongs(member, rules.levels[at]):
            lacking[at] -= 1
    return tuple(
        Seats(0, level, number) for level, number in zip(rules.levels, lacking, strict=True) if number
    )


Belongs = Callable[[Member, Level], bool]


def belonging(escalated: Sequence[Escalated]) -> Belongs:
    """Who belongs to a level: by role and group, or because it was escalated to them and they may decide since."""
    deciding = [step for step in escalated if step.may_decide]

    def belongs(member: Member, level: Level) -> bool:
        own = level.role in member.roles and (not level.group or level.group in member.groups)
        return own or any(_is_for(step, member) for step in deciding)

    return belongs


def _is_for(step: Escalated, member: Member) -> bool:
    if step.person:
        return step.person == member.handle
    return step.group in member.groups if step.group else step.role in member.roles


def can_be_filled(seats: Sequence[Seats], people: Sequence[Sequence[Member]], belongs: Belongs) -> bool:
    """Whether distinct people could take all seats. Each of `people`: with whose authority they can act, one at a time."""
    places = [s.level for s in seats for _ in range(s.missing)]
    taken: dict[int, int] = {}

    def seat(place: int, seen: set[int]) -> bool:
        for person, ways in enumerate(people):
            if person in seen or not any(belongs(member, places[place]) for member in ways):
                continue
            seen.add(person)
            if person not in taken or seat(taken[person], seen):
                taken[person] = place
                return True
        return False

    return all(seat(place, set()) for place in range(len(places)))
