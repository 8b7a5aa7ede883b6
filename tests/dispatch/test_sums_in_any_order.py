"""Whatever happens to proposals under sums, in whatever order: what is reserved equals what a naive model counts.

The model knows nothing of rows, locks or states. It keeps a list of who takes how much, for which day, and adds up.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from access.roles import WORKER
from access.tenancy import acting, reading
from approvals.actions.expire import expire_proposal
from approvals.actions.withdraw import withdraw_approval, withdraw_proposal
from approvals.locks import lock_job_and_proposal
from approvals.models import Decision, Reservation
from approvals.objections import OverSum
from approvals.standing import send_back_to_approval
from tests.approvals.world import draft, operation
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.test_sums_given_back import settle
from tests.dispatch.world import BODY, Dispatching, a_contract, receipt
from workflows.actions.cancel import cancel_job
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)

RATES = {"EUR": Decimal(1), "USD": Decimal("0.5")}
POLICIES: list[tuple[tuple[str, int, str], ...]] = [
    (("policy", 1, "6000.00"), ("recipient", 2, "5000.00")),
    (("policy", 2, "5000.00"),),
    (("approver", 1, "7500.25"),),
    (),
]
AMOUNTS = [
    ("2400.50", "EUR"),
    ("4800.00", "EUR"),
    ("4999.99", "USD"),
    ("-1000.00", "EUR"),
    ("5000.01", "EUR"),
]


@dataclass(eq=False)
class Taking:
    """What one proposal takes of its policy's sums, as the model has it."""

    number: int
    amount: Decimal
    currency: str
    recipient: str
    day: int


@dataclass(eq=False)
class Proposed:
    number: int
    job: Job
    amount: str
    currency: str
    recipient: str
    frozen: int
    state: str = "open"
    last: Taking | None = None
    """What it took last, whether or not it gave it back."""


@dataclass
class Model:
    policy: int = 0
    live: list[Taking] = field(default_factory=list)
    proposed: list[Proposed] = field(default_factory=list)

    def sums(self, one: Proposed) -> list[tuple[str, int, str]]:
        return [*POLICIES[one.frozen], *POLICIES[self.policy]]

    def fits(self, one: Proposed) -> bool:
        """Beside all that others take; what takes already is compared with what took before it, for its own day."""
        others, day = self.live, 0
        if one.last in self.live:
            others, day = self.live[: self.live.index(one.last)], one.last.day
        own = abs(Decimal(one.amount)) * RATES[one.currency]
        for per, days, most in self.sums(one):
            beside = [
                t.amount * RATES[t.currency]
                for t in others
                if t.day > day - days and (per != "recipient" or t.recipient == one.recipient)
            ]
            if own + sum(beside) > Decimal(most):
                return False
        return True

    def take(self, one: Proposed) -> None:
        if self.sums(one) and one.last not in self.live:
            one.last = Taking(one.number, abs(Decimal(one.amount)), one.currency, one.recipient, 0)
            self.live.append(one.last)

    def give_back(self, one: Proposed) -> None:
        if one.last in self.live:
            self.live.remove(one.last)

    def take_again(self, one: Proposed) -> None:
        if one.last is not None and one.last not in self.live:
            one.last = Taking(**vars(one.last))
            self.live.append(one.last)


@dataclass
class History:
    """The system and the model, side by side."""

    d: Dispatching
    erp: FaultServer
    model: Model = field(default_factory=Model)

    def step(self, what: str, which: int) -> None:
        if what in ("propose", "revise", "midnight"):
            getattr(self, what)(which)
        elif self.model.proposed:
            one = self.model.proposed[which % len(self.model.proposed)]
            if one.state in WHEN[what]:
                getattr(self, what)(one, which)
        with reading(self.d.tenant_id):
            rows = Reservation.objects.filter(released_at=None).order_by("pk")
            found = [(r.proposal.job_id, r.amount, r.currency) for r in rows.select_related("proposal")]
        jobs = [p.job.pk for p in self.model.proposed]
        assert found == [(jobs[t.number], t.amount, t.currency) for t in self.model.live], what

    def propose(self, which: int) -> None:
        number, (amount, currency) = len(self.model.proposed), AMOUNTS[which % len(AMOUNTS)]
        recipient, job = f"Recipient {which % 2}", self.d.world.job()
        one = Proposed(number, job, amount, currency, recipient, self.model.policy)
        self.d.world.freeze(job, draft(
            amount=amount, currency=currency, recipient=recipient,
            operations=[operation(action="update", record=f"V-{number}", body=BODY)],
        ))  # fmt: skip
        self.model.proposed.append(one)

    def revise(self, which: int) -> None:
        self.model.policy = which % len(POLICIES)
        sums = [
            {"per": p, "days": n, "amount": a, "currency": "EUR"} for p, n, a in POLICIES[self.model.policy]
        ]
        self.d.world.policy(sums=sums, rates={"USD/EUR": "0.5"})

    def midnight(self, _: int) -> None:
        for taking in self.model.live:
            taking.day -= 1
        with psycopg.connect(os.environ["DATABASE_URL"]) as owner:
            owner.execute(
                "UPDATE approvals_reservation SET day = day - 1 WHERE tenant_id = %s AND released_at IS NULL",
                [self.d.tenant_id],
            )

    def approve(self, one: Proposed, _: int) -> None:
        fits = self.model.fits(one)
        try:
            self.d.world.decide(self.d.world.proposal(one.job), self.d.world.manager)
        except OverSum:
            assert not fits
            return
        assert fits
        self.model.take(one)
        one.state = "approved"

    def unsign(self, one: Proposed, _: int) -> None:
        person = self.d.world.manager.pk
        withdraw_approval(person_id=person, proposal_id=self._id(one), **self._now())
        self._back(one, "open")

    def void(self, one: Proposed, _: int) -> None:
        with acting(self.d.tenant_id):
            job, proposal = lock_job_and_proposal(self._id(one))
            signed = list(Decision.objects.filter(proposal=proposal).values_list("pk", flat=True))
            send_back_to_approval(job, proposal, signed, "a role has ended", timezone.now())
        self._back(one, "open")

    def withdraw(self, one: Proposed, _: int) -> None:
        person = self.d.world.submitter.pk
        withdraw_proposal(person_id=person, proposal_id=self._id(one), **self._now())
        one.state = "over"

    def reject(self, one: Proposed, _: int) -> None:
        self.d.world.decide(self.d.world.proposal(one.job), self.d.world.second, "reject")
        one.state = "over"

    def expire(self, one: Proposed, _: int) -> None:
        with acting(self.d.tenant_id):
            job, proposal = lock_job_and_proposal(self._id(one))
            expire_proposal(job, proposal, WORKER, timezone.now())
        self._back(one, "over")

    def cancel(self, one: Proposed, _: int) -> None:
        cancel_job(job_id=one.job.pk, person_id=self.d.admin.pk, reason="stop", **self._now())
        self._back(one, "over")

    def send(self, one: Proposed, which: int) -> None:
        fits, fate = self.model.fits(one), ("done", "refused", "lost")[which % 3]
        if fits:
            self.erp.then(
                {"done": answers(200, receipt(f"V-{one.number}")), "refused": answers(422), "lost": fin}[fate]
            )
        self.d.run(one.job)
        state = self.d.job_state(one.job)
        if not fits:
            assert state == "AWAITING_APPROVAL"
            self._back(one, "open")
            return
        self.model.take(one)
        assert state == {"done": "CONFIRMED", "refused": "FAILED", "lost": "NEEDS_RECONCILIATION"}[fate]
        one.state = "unknown" if fate == "lost" else "over"
        if fate == "refused":
            self.model.give_back(one)

    def applied(self, one: Proposed, _: int) -> None:
        settle(self.d, one.job, applied=True)
        self.model.take_again(one)
        one.state = "over"

    def not_applied(self, one: Proposed, _: int) -> None:
        settle(self.d, one.job, applied=False)
        self._back(one, "came to nothing")

    def _back(self, one: Proposed, state: str) -> None:
        self.model.give_back(one)
        one.state = state

    def _id(self, one: Proposed) -> int:
        return self.d.world.proposal(one.job).pk

    def _now(self) -> dict[str, Any]:
        return {"tenant_id": self.d.tenant_id, "now": timezone.now()}


WHEN = {
    "approve": {"open"},
    "unsign": {"approved"},
    "void": {"approved"},
    "withdraw": {"open"},
    "reject": {"open"},
    "expire": {"open", "approved"},
    "cancel": {"open", "approved"},
    "send": {"approved"},
    "applied": {"unknown", "came to nothing"},
    "not_applied": {"unknown"},
}
OFTEN = ["propose", "approve", "approve", "send", "send"]
STEPS = st.lists(
    st.tuples(st.sampled_from([*OFTEN, *WHEN, "revise", "midnight"]), st.integers(0, 11)),
    min_size=4,
    max_size=24,
)


def goes_as_the_model_says(steps: list[tuple[str, int]]) -> None:
    with FaultServer() as erp:
        history = History(Dispatching.make(erp.url, a_contract()), erp)
        history.revise(0)
        for what, which in [("propose", 0), ("propose", 1), *steps]:
            history.step(what, which)


def test_what_is_reserved_is_what_a_list_of_everything_that_happened_adds_up_to() -> None:
    """A history of each kind of end, over a midnight and a lower sum."""
    goes_as_the_model_says(
        [
            ("approve", 0), ("approve", 1), ("unsign", 0), ("approve", 1), ("midnight", 0), ("send", 11), ("propose", 4),
            ("approve", 0), ("revise", 3), ("propose", 2), ("approve", 3), ("revise", 1), ("send", 3), ("send", 0),
            ("not_applied", 1), ("void", 0), ("approve", 0), ("cancel", 0), ("applied", 1), ("expire", 3), ("approve", 2),
        ]
    )  # fmt: skip


@pytest.mark.long
@settings(max_examples=80, suppress_health_check=list(HealthCheck), deadline=None)
@given(steps=STEPS)
def test_in_any_order(transactional_db: None, steps: list[tuple[str, int]]) -> None:
    goes_as_the_model_says(steps)
