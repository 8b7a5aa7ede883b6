"""The example jobs: what each is submitted with, and what people then do to it, until it shows what it is there for.

A story's key is its submission key, so that each exists once. `go_on` looks at where the job stands, does the next
thing, and says whether the story has got there; it is asked until it has, or until time is up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.conf import settings

from examples.management.playing import Scene, Story
from examples.management.sample import ADMIN, MANAGER, OPERATOR, SECOND_MANAGER
from examples.management.vendor_list import vendor_list
from examples.sample_documents import agreement, docx, pdf
from examples.simulators.client import BureauControl, ErpControl, ProviderControl
from workflows.actions.cancel import cancel_job
from workflows.actions.hold import hold_job
from workflows.actions.retry import fail_job
from workflows.states import JobState

BEFORE_APPROVAL = (JobState.RECEIVED, JobState.VALIDATED, JobState.PROPOSED)


# --- what people do -------------------------------------------------------------------------------------------------


def _awaits(scene: Scene) -> bool:
    return scene.job.state not in BEFORE_APPROVAL


def _approved_once(scene: Scene) -> bool:
    if scene.job.state == JobState.AWAITING_APPROVAL and not scene.has_decisions():
        scene.approve(MANAGER)
    return scene.job.state not in BEFORE_APPROVAL


def _approved_by(who: str, goal: JobState, before: Callable[[], object], scene: Scene) -> bool:
    if scene.job.state == JobState.AWAITING_APPROVAL and not scene.has_decisions():
        before()
        scene.approve(who)
    return scene.job.state == goal or scene.job.ended_at is not None


def _is_stuck(scene: Scene) -> bool:
    return scene.is_stuck() or scene.job.state not in BEFORE_APPROVAL


def _fails(scene: Scene) -> bool:
    return scene.job.state == JobState.FAILED


def _held(scene: Scene) -> bool:
    if scene.job.state == JobState.AWAITING_APPROVAL and not scene.has_event("job.held"):
        hold_job(
            tenant_id=scene.sample.tenant_id,
            job_id=scene.job.pk,
            person_id=scene.sample.people[OPERATOR],
            reason="The vendor's contact left the company; waiting for a call back.",
            now=scene.now,
        )
    return scene.job.state not in BEFORE_APPROVAL


def _given_up(scene: Scene) -> bool:
    """Once a step has stopped for good: what its steps made is then undone."""
    if scene.is_stuck():
        fail_job(
            tenant_id=scene.sample.tenant_id,
            job_id=scene.job.pk,
            person_id=scene.sample.people[OPERATOR],
            reason="The letter names no total; the supplier sends another one.",
            now=scene.now,
        )
    return scene.has_event("compensation.finished") or scene.job.state not in (
        *BEFORE_APPROVAL,
        JobState.FAILED,
    )


def _cancelled(scene: Scene) -> bool:
    if scene.job.state == JobState.AWAITING_APPROVAL and not scene.has_event("job.cancelled"):
        cancel_job(
            tenant_id=scene.sample.tenant_id,
            job_id=scene.job.pk,
            person_id=scene.sample.people[ADMIN],
            reason="Entered twice; the other request stays.",
            now=scene.now,
        )
        return True
    return scene.job.state not in BEFORE_APPROVAL


# --- faults that the simulators are asked for -----------------------------------------------------------------------


def _lose_the_answer() -> None:
    ErpControl(settings.COUNTERFOIL_ERP_URL).set_fault(
        "drop_after_commit", contract="neither", path="/neither/vendors/V-30502"
    )


def _fail_the_model() -> None:
    """As often as the step is tried, so that attempts that a person grants succeed."""
    provider = ProviderControl(settings.COUNTERFOIL_PROVIDER_URL)
    provider.set_script({"match": {"contains": "VC-2026-0405"}, "fault": "status_500", "times": 3})


def _refuse_a_rating() -> None:
    BureauControl(settings.COUNTERFOIL_BUREAU_URL).set_fault(
        "status_429", path="/credit/ratings/", method="GET", retry_after="2"
    )


# --- the jobs -------------------------------------------------------------------------------------------------------


def _change(reference: str, vendor_id: str, limit: str, request: str, erp: str = "keyed") -> dict[str, Any]:
    return {
        "reference": reference,
        "vendor_id": vendor_id,
        "request": request,
        "requested_limit": limit,
        "currency": "EUR",
        "contact": "accounts@vendor.example",
        "erp": erp,
    }


_POLICY = {
    "reference": "POL-2026-03",
    "title": "Travel and expense policy",
    "text": "Every expense above 10.00 needs a legible receipt. Claims are handed in within 60 days of the expense. "
    "Meals stay within the daily limit of the country visited. Nobody approves a claim of their own.",
}
_ONBOARDING = "vendor-onboarding"
VENDORS, UNLISTED = 24, (9, 17)

STORIES: tuple[Story, ...] = (
    Story(
        "example-confirmed",
        "A vendor change, approved and confirmed",
        _ONBOARDING,
        _change(
            "VC-2026-0401", "V-30417", "48200.00", "We sign the frame contract and expect larger orders."
        ),
        partial(_approved_by, MANAGER, JobState.CONFIRMED, lambda: None),
    ),
    Story(
        "example-awaiting",
        "A vendor change that awaits approval",
        _ONBOARDING,
        _change("VC-2026-0402", "V-30288", "12000.00", "The cold store is being extended this spring."),
        _awaits,
    ),
    Story(
        "example-over-limit",
        "A vendor change above what a manager may approve",
        _ONBOARDING,
        _change("VC-2026-0403", "V-30288", "92000.00", "We would like to pool all sites under one limit."),
        _awaits,
    ),
    Story(
        "example-unknown",
        "A vendor change whose outcome is unknown",
        _ONBOARDING,
        _change("VC-2026-0404", "V-30502", "49000.00", "Please lower our limit, as agreed.", "neither"),
        partial(_approved_by, SECOND_MANAGER, JobState.NEEDS_RECONCILIATION, _lose_the_answer),
    ),
    Story(
        "example-exhausted",
        "A vendor change whose model step ran out of attempts",
        _ONBOARDING,
        _change("VC-2026-0405", "V-30288", "15000.00", "Seasonal storage needs a higher limit until May."),
        _is_stuck,
        _fail_the_model,
    ),
    Story(
        "example-suspended",
        "A vendor change that cannot be proposed",
        _ONBOARDING,
        _change(
            "VC-2026-0406", "V-30119", "5000.00", "We have paid everything and would like to order again."
        ),
        _is_stuck,
    ),
    Story(
        "example-invalid",
        "A vendor change that failed its validation",
        _ONBOARDING,
        _change("VC-2026-0407", "30417", "48200.00", "Sent by the old form, which left out the letter."),
        _fails,
    ),
    Story(
        "example-held",
        "A vendor change that is held",
        _ONBOARDING,
        _change("VC-2026-0408", "V-30288", "9900.00", "A small increase for spare parts.", "lookup"),
        _held,
    ),
    Story(
        "example-cancelled",
        "A vendor change that was cancelled",
        _ONBOARDING,
        _change("VC-2026-0409", "V-30288", "12500.00", "The cold store is being extended this spring."),
        _cancelled,
    ),
    Story(
        "example-policy",
        "A policy that awaits its second approver",
        "expense-policy",
        _POLICY,
        _approved_once,
    ),
    Story(
        "example-enrichment",
        "A list of vendors, enriched, that awaits one approval for all",
        "record-enrichment",
        {"reference": "ENR-2026-03", "records": vendor_list(VENDORS, unlisted=UNLISTED)},
        _awaits,
        _refuse_a_rating,
    ),
    Story(
        "example-document",
        "A document that became a record and awaits approval",
        "document-intake",
        {"reference": "DOC-2026-0311"},
        _awaits,
        file=lambda: ("frame-agreement.pdf", pdf(agreement())),
    ),
    Story(
        "example-undone",
        "A document without a total: given up, and its index undone",
        "document-intake",
        {"reference": "DOC-2026-0312"},
        _given_up,
        file=lambda: ("agreement-draft.docx", docx(agreement(without=["Total"]))),
    ),
)
