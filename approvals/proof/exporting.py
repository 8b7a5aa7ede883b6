"""Exporting one decision, journalled: who took which proof out, in the transaction that reads it."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import Any

from django.conf import settings

from access import authority
from access.models import Tenant
from access.refusals import NotFound
from access.roles import Role
from access.tenancy import acting
from approvals.document import stamp
from approvals.locks import lock_job_and_proposal
from approvals.models import Decision, DecisionVoid, Proposal, ProposedOperation
from approvals.proof.signing import sign
from approvals.proof.verifying import FORMAT
from workflows import journal
from workflows.models import JournalEntry

MAY_EXPORT = (Role.AUDITOR, Role.ADMIN, Role.MANAGER)
EVENT = "decision.exported"


class NoSuchDecision(NotFound):
    """There is no such decision in this tenant."""


def export_decision(*, tenant_id: int, decision_id: int, person_id: int, now: datetime) -> str:
    """A decision with everything that proves it, signed, as JSON text; `approvals.proof.verifying` reads it anywhere.

    Locks job → proposal, so that the journal in it ends with the note of this export. An auditor, admin or manager
    may. A repeat is another export. Raises NoSuchDecision, NotPermitted.
    """
    with acting(tenant_id):
        actor = authority.require(person_id, *MAY_EXPORT)
        decision = Decision.objects.select_related("person", "on_behalf_of").filter(pk=decision_id).first()
        if decision is None:
            raise NoSuchDecision(f"There is no decision {decision_id} here.")
        job, proposal = lock_job_and_proposal(decision.proposal_id)
        evidence = {"decision": decision.pk, "proposal": proposal.pk, "digest": proposal.digest}
        journal.record(job=job, event=EVENT, actor=actor, evidence=evidence)
        value = {
            "format": FORMAT,
            "exported_at": stamp(now),
            "exported_by": actor.name,
            "tenant": _tenant(tenant_id),
            "decision": _decision(decision),
            "proposal": _proposal(proposal),
            "operations": [_operation(o) for o in proposal_operations(proposal)],
            "journal": [_row(e) for e in JournalEntry.objects.filter(job=job).order_by("sequence")],
        }
    return json.dumps(sign(value, settings.COUNTERFOIL_SIGNING_KEY), indent=1, ensure_ascii=False)


def proposal_operations(proposal: Proposal) -> list[ProposedOperation]:
    """A proposal's operations in order."""
    return list(ProposedOperation.objects.filter(proposal=proposal).order_by("ordinal"))


def _tenant(tenant_id: int) -> dict[str, Any]:
    tenant = Tenant.objects.get(pk=tenant_id)
    return {"id": tenant.pk, "slug": tenant.slug, "name": tenant.name}


def _decision(decision: Decision) -> dict[str, Any]:
    void = DecisionVoid.objects.filter(decision=decision).first()
    lent = decision.on_behalf_of
    again = decision.authenticated_at
    return {
        "id": decision.pk,
        "person": {"id": decision.person_id, "handle": decision.person_name},
        "on_behalf_of": None if lent is None else {"id": lent.pk, "handle": lent.username},
        "verdict": decision.verdict,
        "digest": decision.digest,
        "reason": decision.reason,
        "fields": decision.fields.split("\n") if decision.fields else [],
        "level": decision.level,
        "authenticated_by": decision.authenticated_by,
        "authenticated_at": None if again is None else stamp(again),
        "door": decision.door,
        "decided_at": stamp(decision.decided_at),
        "void": None
        if void is None
        else {"at": stamp(void.voided_at), "by": void.voided_by, "why": void.why},
    }


def _proposal(proposal: Proposal) -> dict[str, Any]:
    return {
        "id": proposal.pk,
        "job": proposal.job_id,
        "label": proposal.label,
        "digest": proposal.digest,
        "document": proposal.document,
        "policy": {
            "name": proposal.policy.name,
            "revision": proposal.policy.revision,
            "rules": proposal.policy.rules,
        },
        "closing": proposal.closing,
    }


def _operation(one: ProposedOperation) -> dict[str, Any]:
    names = (
        "ordinal",
        "operation_key",
        "receiver",
        "account",
        "record",
        "method",
        "target",
        "headers",
        "body_digest",
    )
    return {
        **{name: getattr(one, name) for name in names},
        "body": base64.b64encode(bytes(one.body)).decode(),
    }


def _row(entry: JournalEntry) -> dict[str, Any]:
    names = (
        "sequence",
        "event",
        "from_state",
        "to_state",
        "actor_kind",
        "actor_id",
        "actor_name",
        "evidence",
    )
    return {
        **{name: getattr(entry, name) for name in names},
        "at": stamp(entry.at),
        "previous": bytes(entry.previous).hex(),
        "hash": bytes(entry.hash).hex(),
    }
