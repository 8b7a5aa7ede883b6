"""What the pages on policies show. Needs a tenant's scope."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count

from access.directory import directory
from access.models import Group
from access.refusals import NotFound
from approvals.models import Policy, Proposal
from approvals.names_gone import warnings
from approvals.telling import in_a_line
from workflows import registry
from workflows.authoring import Workflow

PAGE = 50


class NoSuchPolicy(NotFound):
    """There is no such revision of a policy in this tenant."""


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """One policy in its newest revision. `open`: its proposals that nobody has closed yet."""

    policy: Policy
    line: str
    workflows: list[str]
    open: int
    warnings: int


@dataclass(frozen=True, slots=True)
class PolicyList:
    """Rows by name, and behind which name the next page starts; empty at the end."""

    rows: list[PolicyRow]
    next_after: str


def newest_policies(after: str = "") -> PolicyList:
    """One page of the policies, those that were ended too, in a number of queries that does not depend on how many."""
    query = Policy.objects.filter(name__gt=after).order_by("name", "-revision").distinct("name")
    found = list(query[: PAGE + 1])
    page = found[:PAGE]
    names = [p.name for p in page]
    people, groups = (
        directory(),
        set(Group.objects.filter(ended_at__isnull=True).values_list("name", flat=True)),
    )
    counted = Proposal.objects.filter(closed_at__isnull=True, policy__name__in=names)
    opened = dict(counted.values_list("policy__name").annotate(n=Count("pk")).order_by())
    rows = [
        PolicyRow(
            policy=p,
            line=in_a_line(p.ruleset),
            workflows=workflows_under(p.name),
            open=opened.get(p.name, 0),
            warnings=0 if p.end_reason else len(warnings(p.ruleset, people, groups)),
        )
        for p in page
    ]
    return PolicyList(rows, names[-1] if len(found) > PAGE else "")


def policy_of(policy_id: int) -> Policy:
    """One revision, or NoSuchPolicy."""
    found = Policy.objects.filter(pk=policy_id).first()
    if found is None:
        raise NoSuchPolicy("There is no such policy here.")
    return found


def revisions(name: str, before: int = 0) -> list[Policy]:
    """The newest revisions of a policy, or the next older ones; one more than a page where there are more."""
    query = Policy.objects.filter(name=name).order_by("-revision")
    return list((query.filter(revision__lt=before) if before else query)[: PAGE + 1])


def workflows_under(name: str) -> list[str]:
    """The titles of the workflows whose proposals are approved under a policy, as far as they are installed here."""
    return [w.title or w.name for w in installed() if w.approval_policy == name]


def installed() -> list[Workflow]:
    """The workflows that new jobs can be of, in the order in which they are listed everywhere."""
    return [registry.current(name) for name in dict.fromkeys(name for name, _ in registry.workflows())]
