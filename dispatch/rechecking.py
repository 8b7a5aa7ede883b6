"""The workflow's own look at the facts before a first send: outside any transaction, since it may ask a receiver."""

from __future__ import annotations

from access.tenancy import reading
from approvals.freezing import proposed_draft
from workflows import registry
from workflows.authoring import Ctx, ProposalDraft
from workflows.machines import Claim
from workflows.models import Job


def is_rechecked(job: Job) -> bool:
    """Whether the job's workflow has handlers that look at the facts. Raises RevisionMissing."""
    return bool(registry.pinned(job.workflow, job.revision, job.configuration_digest).rechecks)


def objections_to(claim: Claim) -> list[str]:
    """What the workflow's `recheck` handlers object to, as sentences. Raises what they raise: nothing is sent then."""
    with reading(claim.tenant_id):
        job = Job.objects.get(pk=claim.job_id)
        workflow = registry.pinned(job.workflow, job.revision, job.configuration_digest)
        found = proposed_draft(job) if workflow.rechecks else None
    if found is None:
        return []
    draft = ProposalDraft.model_validate_json(found[0])
    ctx = Ctx(
        tenant_id=claim.tenant_id,
        job_id=claim.job_id,
        reference=job.reference,
        item_key=claim.key,
        attempt=claim.attempt,
        request_key=f"{job.workflow}-{claim.job_id}-recheck-{claim.key}",
        usage=claim.usage,
    )
    return [str(sentence) for handler in workflow.rechecks for sentence in handler(ctx, draft) or ()]
