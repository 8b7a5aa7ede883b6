"""What somebody ticked in the list to decide together: frozen when it is chosen, and what came of each."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from access.models import Person
from access.tenancy import Rights, TenantForeignKey, TenantModel
from approvals.models.decisions import Decision, Verdict
from approvals.models.proposals import Proposal


class ChosenState(models.TextChoices):
    """What came of one chosen proposal."""

    WAITING = "waiting"  # nothing yet
    DONE = "done"  # it has this person's decision
    REFUSED = "refused"  # the decision was refused; why says it
    LEFT = "left"  # it was not among those that were confirmed


class Selection(TenantModel):
    """Proposals that one person chose to decide together, and the one verdict that they confirmed, once."""

    app_rights: ClassVar = Rights(insert=True, update=("verdict", "reason", "confirmed_at"))
    ended_by: ClassVar = "confirmed_at"

    person = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="+")
    chosen_at = models.DateTimeField()
    verdict = models.CharField(max_length=20, choices=Verdict.choices, default="", blank=True)
    reason = models.TextField(default="", blank=True)
    confirmed_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(verdict="", confirmed_at__isnull=True)
                | Q(verdict__in=[Verdict.APPROVE, Verdict.REJECT], confirmed_at__isnull=False),
                name="a_confirmed_selection_has_a_verdict",
            )
        ]

    def __str__(self) -> str:
        return f"selection {self.pk}"


class Chosen(TenantModel):
    """One proposal of a selection with the digest that was in the list, in its order, and what came of it."""

    app_rights: ClassVar = Rights(insert=True, update=("state", "why", "decision_id", "settled_at"))
    ended_by: ClassVar = "settled_at"

    selection = TenantForeignKey(Selection, db_index=False)
    ordinal = models.IntegerField()
    proposal = TenantForeignKey(Proposal, db_index=False)
    digest = models.CharField(max_length=64)
    state = models.CharField(max_length=10, choices=ChosenState.choices, default=ChosenState.WAITING)
    why = models.CharField(max_length=1000, default="", blank=True)
    decision = TenantForeignKey(Decision, null=True, blank=True, db_index=False)
    settled_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["selection", "proposal"], name="chosen_once"),
            models.UniqueConstraint(fields=["selection", "ordinal"], name="one_chosen_a_place"),
            models.CheckConstraint(
                condition=Q(state="waiting", settled_at__isnull=True)
                | (~Q(state="waiting") & Q(settled_at__isnull=False)),
                name="a_settled_choice_says_when",
            ),
            models.CheckConstraint(
                condition=Q(state="done", decision__isnull=False)
                | (~Q(state="done") & Q(decision__isnull=True)),
                name="a_choice_is_done_by_its_decision",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["selection"], condition=Q(state="waiting"), name="chosen_and_waiting")
        ]

    def __str__(self) -> str:
        return f"{self.proposal_id} of {self.selection_id}: {self.state}"
