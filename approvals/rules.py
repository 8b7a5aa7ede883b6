"""Who may decide what, in one place for every door: page, API, bulk, dispatch, and the sentence on the screen.

The stricter of the frozen and the current revision of a policy holds: what is approved has to satisfy both. A person
acts with their own authority, or with one that was lent to them for a time, which never raises a limit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property

from access.directory import Directory, Lent, Member
from access.roles import Role
from approvals.blocking import said_of
from approvals.levels import Belongs, Seats, Standing, belonging, can_be_filled, standing
from approvals.limits import asks_again, limits_for, over_limit, why_again
from approvals.models import Decision, Escalated, Proposal, RecipientBlock, Verdict
from approvals.objections import (
    FourEyes,
    NotAnApprover,
    NotYourLevel,
    Objection,
    OverLimit,
    OverSum,
    RecipientBlocked,
    Twice,
    lost,
)
from approvals.ruleset import Level, Money, RuleSet
from approvals.sums import Taken, over_sums, without


@dataclass(frozen=True, slots=True)
class Way:
    """With whose authority a person acts: the own, or that of `giver` by a delegation."""

    person: Member
    giver: Member | None = None
    lent: Lent | None = None

    @property
    def principal(self) -> Member:
        return self.giver or self.person


def amounts_of(proposal: Proposal) -> list[tuple[Decimal, str]]:
    """What limits are compared with."""
    return [(Decimal(amount), currency) for amount, currency in json.loads(proposal.amounts)]


@dataclass(frozen=True, eq=False)
class Facts:
    """All that says who may decide one proposal, read at one moment. `live` are the decisions that nobody voided."""

    proposal: Proposal
    workflow: str
    frozen: RuleSet
    current: RuleSet
    directory: Directory
    contributors: frozenset[int]
    live: list[Decision]
    escalated: list[Escalated]
    taken: Taken
    block: RecipientBlock | None = None
    """Why nothing may be approved for its recipient, by anybody."""

    def after(self, decision: Decision) -> Facts:
        """The same moment with one more decision, which was recorded under the proposal's lock."""
        return replace(self, live=[*self.live, decision])

    @property
    def four_eyes(self) -> bool:
        return self.frozen.four_eyes or self.current.four_eyes

    @property
    def bulk(self) -> bool:
        """Whether it may be decided together with others: both revisions have to allow it."""
        return self.frozen.bulk and self.current.bulk

    @property
    def rulesets(self) -> tuple[RuleSet, ...]:
        """Both revisions, or the one where they say the same."""
        return (self.frozen,) if self.frozen == self.current else (self.frozen, self.current)

    @property
    def quorum(self) -> int:
        """Signatures that it needs in all: the larger number of the two revisions."""
        return max(self.proposal.quorum, self.current.quorum)

    @property
    def managers(self) -> frozenset[int]:
        return self.directory.with_role(Role.MANAGER)

    @cached_property
    def amounts(self) -> list[tuple[Decimal, str]]:
        return amounts_of(self.proposal)

    @cached_property
    def belongs(self) -> Belongs:
        """Who belongs to which level, what was escalated included."""
        return belonging(self.escalated)

    @property
    def approvals(self) -> list[Decision]:
        """Live approvals, oldest first, whatever became of their authors."""
        return [d for d in self.live if d.verdict == Verdict.APPROVE]

    @cached_property
    def valid(self) -> list[Decision]:
        """Approvals that count now: of the digest, by active managers whose authority reaches, whom nothing excludes."""
        return [d for d in self.approvals if self.objection_to(d) is None]

    @cached_property
    def standing(self) -> Standing:
        """Which level is open, and how many signatures each lacks."""
        signed = [(d, way.principal) for d in self.valid if (way := self._way_of(d)) is not None]
        return standing(self.frozen, self.current, signed, self.belongs)

    @property
    def missing(self) -> int:
        """How many approvals are still lacking."""
        return self.standing.missing

    @cached_property
    def able(self) -> frozenset[int]:
        """Everybody who may sign now, and those who have. Who is out of office is among them: they may still sign."""
        signed = {d.person_id for d in self.valid}
        return frozenset(p for p in self.managers if p in signed or self.objection(p) is None)

    @cached_property
    def blocked(self) -> bool:
        """Whether the people who are at work could not complete it: nobody left, all away, everyone excluded, or the
        policy's sums used up."""
        return not self._completable(lambda way: self.over_sums(way.principal.person_id) is None)

    @cached_property
    def blocked_by_sums(self) -> bool:
        """Whether it is blocked by nothing but sums, which have room again by themselves on a later day."""
        return self.blocked and self._completable(lambda _: True)

    def _completable(self, fits: Callable[[Way], bool]) -> bool:
        used = {d.person_id for d in self.live} | {d.on_behalf_of_id for d in self.live}
        free = [
            [
                way.principal
                for way in self._ways(p)
                if way.principal.person_id not in used and self.excluded(way) is None and fits(way)
            ]
            for p in sorted(self.managers)
            if p not in used and not self.directory.members[p].away
        ]
        return all(
            can_be_filled(seats, free, self.belongs)
            for seats in (self.standing.frozen, self.standing.current)
        )

    def own(self, person_id: int) -> Decision | None:
        """The person's decision that counts, if any."""
        return next((d for d in self.live if d.person_id == person_id), None)

    def objection(self, person_id: int, verdict: str = Verdict.APPROVE) -> Objection | None:
        """Why this person may not give this verdict, or None. Saying no needs no limit and no level."""
        found = self.way(person_id, verdict)
        return None if isinstance(found, Way) else found

    def way(self, person_id: int, verdict: str = Verdict.APPROVE) -> Way | Objection:
        """The authority that the person would act with: the own first, then what was lent. Or why there is none."""
        first: Objection | None = None
        for way in self._ways(person_id):
            objection = self._objection(way, verdict)
            if objection is None:
                return way
            first = first or objection
        return first or NotAnApprover("Only a manager of this organisation may decide this.")

    def objection_to(self, decision: Decision) -> Objection | None:
        """Why an approval that was given does not count now, or None."""
        if decision.digest != self.proposal.digest:
            return NotAnApprover(f"{decision.person_name} signed another digest.")
        way = self._way_of(decision)
        if way is None:
            return lost(decision)
        level = self._level(decision.level)
        if level is not None and not self.belongs(way.principal, level):
            return NotYourLevel(
                f"{way.principal.handle} no longer belongs to those who sign there.", "Not your level"
            )
        return self.excluded(way)

    def excluded(self, way: Way, verdict: str = Verdict.APPROVE) -> FourEyes | OverLimit | None:
        """What excludes an authority whichever level is open: four eyes, and limits where it is a yes."""
        involved = self.contributors | {self.proposal.initiator_id}
        if self.four_eyes and way.person.person_id in involved:
            did = "started" if way.person.person_id == self.proposal.initiator_id else "had a hand in"
            return FourEyes(f"You {did} this job, so somebody else has to decide it.", f"You {did} this job")
        if self.four_eyes and way.principal.person_id in involved:
            who = way.principal.handle
            return FourEyes(
                f"{who}, whose authority you would use, had a hand in this job.", f"{who} had a hand in it"
            )
        return self._over_limit(way) if verdict == Verdict.APPROVE else None

    @property
    def needs_reentry(self) -> bool:
        """Whether whoever approves this has to enter their password again."""
        return bool(self.password_why)

    @property
    def password_why(self) -> str:
        """Why a policy asks for the password again, in the words of the first that does; empty where none does."""
        asking = (rules for rules in self.rulesets if asks_again(rules, self.amounts))
        return next((why_again(rules) for rules in asking), "")

    def _objection(self, way: Way, verdict: str) -> Objection | None:
        own = self.own(way.person.person_id)
        found = self.excluded(way, verdict) or (self._used(way) if own is None else None)
        if found is not None or verdict != Verdict.APPROVE:
            return found
        if self.block is not None:
            return RecipientBlocked(f"{said_of(self.block)} Nothing can be approved for this recipient.")
        seats = self.standing.open
        if own is None and seats is not None and not self.belongs(way.principal, seats.level):
            return _not_your_level(seats)
        return self.over_sums(way.principal.person_id)

    def over_sums(self, approver_id: int) -> OverSum | None:
        """Why it does not fit beside what others have reserved, approved with this person's authority. It counts for
        whoever has signed as well: what they approved elsewhere since may have used their own sums up."""
        if not any(rules.sums for rules in self.rulesets):
            return None
        if (over := self._over_sums_of(approver_id)) is not None:
            return over
        for decision in self.valid:
            signer_id = decision.on_behalf_of_id or decision.person_id
            if (over := self._over_sums_of(signer_id)) is not None:
                return OverSum(f"{self.directory.members[signer_id].handle} has signed this already. {over}")
        return None

    def _over_sums_of(self, approver_id: int) -> OverSum | None:
        return over_sums(
            self.amounts,
            self.rulesets,
            self._others,
            recipient=self.proposal.recipient,
            approver_id=approver_id,
        )

    @cached_property
    def _others(self) -> Taken:
        return without(self.taken, self.proposal.pk)

    def _over_limit(self, way: Way) -> OverLimit | None:
        """The first limit that is not kept: of whose authority it is and of who uses it, both, and the lent cap."""
        members = {m.person_id: m for m in (way.principal, way.person)}.values()
        for rules in self.rulesets:
            bounds: list[Sequence[Money] | None] = [limits_for(m, self.workflow, rules) for m in members]
            if way.lent is not None and way.lent.most is not None:
                # A row, no input: whatever stands there is a cap, and never stops the whole list from being read.
                bounds.append([Money.model_construct(amount=way.lent.most, currency=way.lent.currency)])
            for bound in bounds:
                if (over := over_limit(self.amounts, bound, rules.rates)) is not None:
                    return over
        return None

    def _used(self, way: Way) -> Twice | None:
        for d in self.live:
            if way.person.person_id == d.on_behalf_of_id:
                return Twice(
                    f"{d.person_name} has decided this with the authority that you lent. They can take it back."
                )
            if way.principal.person_id in (d.person_id, d.on_behalf_of_id):
                return Twice(
                    f"{d.person_name} has used the authority of {way.principal.handle} for this already."
                )
        return None

    def _level(self, number: int) -> Level | None:
        return self.frozen.levels[number - 1] if 0 < number <= len(self.frozen.levels) else None

    def _ways(self, person_id: int) -> Iterator[Way]:
        person = self.directory.members.get(person_id)
        if person is None or Role.MANAGER not in person.roles:
            return
        yield Way(person)
        for lent in self.directory.taken_by(person_id):
            giver = self.directory.members[lent.giver_id]
            if Role.MANAGER in giver.roles and lent.covers(self.proposal.policy.name):
                yield Way(person, giver, lent)

    def _way_of(self, decision: Decision) -> Way | None:
        for way in self._ways(decision.person_id):
            if (way.lent.delegation_id if way.lent else None) == decision.delegation_id:
                return way
        return None


def _not_your_level(seats: Seats) -> NotYourLevel:
    level = seats.level
    asked = [f"the role {level.role}"] if level.role is not Role.MANAGER else []
    asked += [f"the group {level.group}"] if level.group else []
    return NotYourLevel(
        f"It is {seats.name}'s turn: that needs {' and '.join(asked)}.", f"It is {seats.name}'s turn"
    )
