"""What a rule set that nobody has written yet would do to the open proposals of its policy. Reads, and writes nothing.

The same facts are asked as before a decision and before a send, with the draft in the place of what is in force. A
proposal keeps its own revision too, so a draft that asks for less changes nothing for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from approvals.facts import facts_for
from approvals.models import Proposal
from approvals.rules import Facts
from approvals.ruleset import RuleSet
from approvals.wording import count

LOOKED_AT = 300


@dataclass(frozen=True, slots=True)
class Foreseen:
    """One open proposal that would stand differently."""

    proposal_id: int
    label: str
    title: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Outlook:
    """What would come of it. `looked_at` of `open`, those that expire soonest; `summary` is one sentence."""

    open: int
    looked_at: int
    changed: list[Foreseen]
    summary: str


def foresee(name: str, draft: RuleSet) -> Outlook:
    """What a draft would do to a policy's proposals that are open or approved and not sent. Needs a tenant's scope."""
    query = Proposal.objects.filter(policy__name=name, closed_at__isnull=True)
    rows = query.select_related("policy", "job").defer("document", "job__input").order_by("expires_at", "pk")
    proposals = list(rows[:LOOKED_AT])
    if not proposals:
        return Outlook(0, 0, [], "No proposal is open under it.")
    now, then = facts_for(proposals), facts_for(proposals, instead=draft)
    changes = {p.pk: _change(now[p.pk], then[p.pk]) for p in proposals}
    changed = [Foreseen(p.pk, p.label, p.title, changes[p.pk][1]) for p in proposals if changes[p.pk][1]]
    total = len(proposals) if len(proposals) < LOOKED_AT else query.count()
    return Outlook(total, len(proposals), changed, _summary([kind for kind, _ in changes.values()], total))


def _change(now: Facts, then: Facts) -> tuple[str, str]:
    """What kind of change it is, in a word, and in a sentence; both empty for none."""
    if then.blocked and not now.blocked:
        return "blocked", "Nobody who is at work could complete it."
    if now.proposal.approved_at is not None and then.missing:
        return "back", f"It is approved, and would go back: it needs {_signatures(then.missing)}."
    if then.missing > now.missing:
        lost = len(now.valid) - len(then.valid)
        why = (
            f" {count(lost, 'signature', 'signatures').capitalize()} would no longer count."
            if lost > 0
            else ""
        )
        return "more", f"It would need {_signatures(then.missing - now.missing)}.{why}"
    fewer = len(now.able) - len(then.able)
    if now.missing and fewer > 0:
        return "fewer", f"{count(fewer, 'person', 'people').capitalize()} could no longer sign it."
    return "", ""


def _signatures(number: int) -> str:
    return count(number, "more signature", "more signatures")


def _summary(kinds: Sequence[str], total: int) -> str:
    said = [
        f"{number} {words}"
        for kind, words in (
            ("more", "would need more signatures"),
            ("back", "would go back to its approvers"),
            ("blocked", "would be blocked"),
            ("fewer", "could be signed by fewer people"),
        )
        if (number := kinds.count(kind))
    ]
    few = f" Looked at: the {len(kinds)} that expire first." if total > len(kinds) else ""
    opened = f"{total:,} open proposal{'s' if total != 1 else ''}"
    return f"Of {opened}, {', '.join(said)}.{few}" if said else f"Nothing changes for {opened}.{few}"
