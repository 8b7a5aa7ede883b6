"""What a workflow says when it is asked again before a first send. Pure: no rows, so that a test of a workflow asks it too."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from workflows.authoring import Ctx, ProposalDraft, SourceRecord, Workflow


@dataclass(frozen=True, slots=True)
class SourceSeen:
    """A source record as it was frozen, and the version that it has now; None where nobody can say."""

    name: str
    frozen: str
    present: str | None


@dataclass(frozen=True, slots=True)
class Looked:
    """What a workflow said before a first send. None: it has no handler that looks there."""

    objections: tuple[str, ...] | None = None
    sources: tuple[SourceSeen, ...] | None = None


UNSEEN = Looked()
"""Nobody has asked the workflow: it has no handler that looks again, or what is sent is not permitted by the approval."""


def ask_workflow(workflow: Workflow, ctx: Ctx, draft: ProposalDraft) -> Looked:
    """Call the handlers: each `recheck` once, `source_version` at most once for each source record."""
    objections = [str(sentence) for handler in workflow.rechecks for sentence in handler(ctx, draft) or ()]
    return Looked(
        objections=tuple(objections) if workflow.rechecks else None,
        sources=_versions(workflow, ctx, draft) if workflow.source_versions else None,
    )


def _versions(workflow: Workflow, ctx: Ctx, draft: ProposalDraft) -> tuple[SourceSeen, ...]:
    asked: dict[SourceRecord, SourceSeen] = {}
    for source in draft.sources:
        if source not in asked:
            now = workflow.source_versions[0](ctx, source, draft)
            asked[source] = SourceSeen(source.name, source.version, None if now is None else str(now))
    return tuple(asked.values())


def strangely_moved(looked: Looked, written: Collection[str]) -> list[SourceSeen]:
    """Sources of another version now, without those that a send of this proposal may have moved."""
    return [s for s in looked.sources or () if s.present not in (None, s.frozen) and s.name not in written]


def moved_sentence(source: SourceSeen) -> str:
    return f"{source.name} is at version {source.present} now; version {source.frozen} was approved."
