"""What can be done in bulk to open cases: each is asked about, or answered, by its own evidence and its own guards.

There is no "all of them are done": a case that its receiver's answer does not settle stays open, whatever is chosen.
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import Exists, OuterRef, Q

from reconciliation.actions.carrying_out import BY_LOOKUP
from reconciliation.actions.outcomes import ask_not_applied_inside, look_up, resubmit_inside
from reconciliation.actions.owning import assign_inside
from reconciliation.actions.seconding import second_inside
from reconciliation.actions.steps import release_inside
from reconciliation.kinds import KINDS, VerbName
from reconciliation.models import Bulk, BulkEntry, ResolutionRequest
from workflows.stopped import ChangedMeanwhile


def ask(bulk: Bulk, entry: BulkEntry, now: datetime) -> str:
    """Ask the receiver what became of it. Outside any transaction; a repeat asks once more, and nothing else."""
    seen = look_up(
        tenant_id=bulk.tenant_id,
        case_id=_case(entry),
        person_id=_by(bulk),
        version=entry.seen_number,
        now=now,
    )
    return seen.sentence


def ask_not_applied(bulk: Bulk, entry: BulkEntry, now: datetime) -> str:
    """Ask a second person to attest that it did not happen, where its last look-up proves that."""
    return ask_not_applied_inside(
        case_id=_case(entry),
        person_id=_by(bulk),
        version=entry.seen_number,
        evidence=bulk.reason,
        now=now,
        basis=BY_LOOKUP,
    ).sentence


def send_again(bulk: Bulk, entry: BulkEntry, now: datetime) -> str:
    """The same bytes under the same key, or a request for a second person where the key is not recognised any more."""
    return resubmit_inside(
        case_id=_case(entry), person_id=_by(bulk), version=entry.seen_number, reason=bulk.reason, now=now
    ).sentence


def second(bulk: Bulk, entry: BulkEntry, now: datetime) -> str:
    """Say yes to what another person asked for, where it is still what was seen."""
    request = ResolutionRequest.objects.filter(case=_case(entry), closed_at__isnull=True).first()
    if request is None:
        raise ChangedMeanwhile("Nobody asks for a second person any more.")
    return second_inside(
        case_id=_case(entry), request_id=request.pk, person_id=_by(bulk), version=entry.seen_number, now=now
    ).sentence


def take(bulk: Bulk, entry: BulkEntry, now: datetime) -> str:
    """The case is whoever confirmed the bulk's from now on."""
    return assign_inside(
        case_id=_case(entry), person_id=_by(bulk), version=entry.seen_number, assignee_id=_by(bulk), now=now
    ).sentence


def release(bulk: Bulk, entry: BulkEntry, now: datetime) -> str:
    """Lift the hold of the case's job; the journal's row of that closes the case."""
    return release_inside(
        case_id=_case(entry), person_id=_by(bulk), version=entry.seen_number, reason=bulk.reason, now=now, bulk=bulk.pk
    ).sentence  # fmt: skip


def of_held_jobs() -> Q:
    """Cases of the kinds whose job is held, and that lifting the hold answers."""
    return Q(kind__in=[kind.value for kind, terms in KINDS.items() if VerbName.RELEASE in terms.verbs])


def with_verb(name: VerbName) -> Q:
    """Cases of the kinds that a verb answers, about an operation."""
    kinds = [kind.value for kind, terms in KINDS.items() if name in terms.verbs]
    return Q(kind__in=kinds, operation__isnull=False)


def asked_for() -> Q:
    """Cases for which somebody asks for a second person."""
    return Q(Exists(ResolutionRequest.objects.filter(case=OuterRef("pk"), closed_at__isnull=True)))


def _case(entry: BulkEntry) -> int:
    assert entry.case_id is not None
    return int(entry.case_id)


def _by(bulk: Bulk) -> int:
    assert bulk.confirmed_by_id is not None
    return bulk.confirmed_by_id
