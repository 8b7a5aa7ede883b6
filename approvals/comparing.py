"""Two rule sets beside each other: each rule that differs, before and after, in words. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from approvals.ruleset import RuleSet
from approvals.telling import whole


@dataclass(frozen=True, slots=True)
class RuleDifference:
    """One rule that differs. Of a list only what is not in both; `same`: how many sentences are."""

    rule: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    same: int


def compare(before: RuleSet, after: RuleSet) -> list[RuleDifference]:
    """What has to be read again; empty where both say the same."""
    found = []
    for was, now in zip(whole(before), whole(after), strict=True):
        if was.sentences != now.sentences:
            same = [s for s in was.sentences if s in now.sentences]
            found.append(
                RuleDifference(
                    was.rule,
                    tuple(s for s in was.sentences if s not in same),
                    tuple(s for s in now.sentences if s not in same),
                    len(same),
                )
            )
    return [d for d in found if d.before or d.after]
