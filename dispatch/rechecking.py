"""The workflow's own look at the facts before a first send: outside any transaction, since it may ask a receiver."""

from __future__ import annotations

from access.tenancy import reading
from approvals.freezing import proposed_draft
from dispatch.looking import Looked, ask_workflow
from workflows import registry
from workflows.authoring import Ctx, ProposalDraft
from workflows.engine import handlers
from workflows.machines import Claim
from workflows.models import Job


def is_looked_at(job: Job) -> bool:
    """Whether the job's workflow has handlers that look at the facts. Raises RevisionMissing."""
    workflow = registry.pinned(job.workflow, job.revision, job.configuration_digest)
    return bool(workflow.rechecks or workflow.source_versions)


def look_again(claim: Claim) -> Looked:
    """What the workflow's `recheck` and `source_version` handlers say now. Raises what they raise: nothing is sent then.

    What they do to the thread's sessions ends with them.
    """
    with reading(claim.tenant_id):
        job = Job.objects.get(pk=claim.job_id)
        workflow = registry.pinned(job.workflow, job.revision, job.configuration_digest)
        found = proposed_draft(job) if workflow.rechecks or workflow.source_versions else None
    if found is None:
        return Looked()
    ctx = Ctx(
        tenant_id=claim.tenant_id,
        job_id=claim.job_id,
        reference=job.reference,
        item_key=claim.key,
        attempt=claim.attempt,
        request_key=f"{job.workflow}-{claim.job_id}-recheck-{claim.key}",
        usage=claim.usage,
    )
    draft = ProposalDraft.model_validate_json(found[0])
    try:
        return handlers.call(ask_workflow, workflow, ctx, draft)
    finally:
        handlers.tidy_after(f"the recheck of {workflow.name}")
