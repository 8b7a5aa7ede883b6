"""Twenty rules, written one after the other; the provider hangs at rule 14 and every process is killed there.

After the restart the thirteen saved rules are as they were, and only what was not saved is asked again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from access.tenancy import reading
from examples.demos.installation import Installation, require_promised
from examples.management.sample import MANAGER, SECOND_MANAGER
from examples.simulators.client import Call
from workflows.models import Checkpoint, Job
from workflows.states import JobState

WORKERS, SLOTS = 1, 1
RULES, HANGS_AT = 20, 14
HANG_SECONDS = 60.0
Row = tuple[int, str, str, str]


def play(on: Installation, *, contract: str) -> dict[str, Any]:
    """Run the story; what was observed. Raises NotSeen where that is not what is promised."""
    hang = {"kind": "timeout", "seconds": HANG_SECONDS}
    on.provider.set_script({"match": {"task": f"write-rule {HANGS_AT}"}, "fault": hang, "times": 1})
    on.teller.step(f"The provider will not answer the first call for rule {HANGS_AT}")
    job = _submit(on, contract)
    _wait_for_the_hang(on, job)
    on.cluster.kill()
    saved, calls_before = _saved_rules(on, job), _rule_calls(on)
    on.teller.step(
        f"Every worker process killed during rule {HANGS_AT}: {len(saved)} rules saved, {len(calls_before)} calls made"
    )
    last = max(c["id"] for c in on.provider.calls())
    on.cluster.start()
    on.wait_for_state(job.pk, JobState.AWAITING_APPROVAL)
    calls_after = _rule_calls(on, since=last)
    on.teller.step(f"Started again: {len(calls_after)} calls more, for rules {_named(calls_after)}")
    for handle in (MANAGER, SECOND_MANAGER):
        on.teller.step(f"{handle}: {on.approve(job.pk, handle)}")
    on.wait_for_state(job.pk, JobState.CONFIRMED)
    return _observed(on, job, contract, saved, calls_before, calls_after)


def _submit(on: Installation, contract: str) -> Job:
    value: dict[str, object] = {
        "reference": "DEMO-POLICY",
        "title": "Travel and expense policy",
        "text": "Every expense above 10.00 needs a legible receipt. Claims are handed in within 60 days.",
        "erp": contract,
    }
    job = on.submit("expense-policy", value)
    on.teller.step(f"{job.label} submitted: {RULES} rules to write and test")
    return job


def _wait_for_the_hang(on: Installation, job: Job) -> None:
    """Until the call that hangs is open."""

    def look() -> bool:
        on.teller.progress(f"{len(_saved_rules(on, job))} of {RULES} rules saved")
        return any(_number(c) == HANGS_AT and c["outcome"] is None for c in _rule_calls(on))

    on.wait(look, what=f"the call for rule {HANGS_AT}")


def _saved_rules(on: Installation, job: Job) -> dict[int, Row]:
    """The checkpoints of the rules by number, each with everything that is in its row."""
    with reading(on.tenant_id):
        rows = Checkpoint.objects.filter(item__job=job, item__stage__name="write-rule")
        columns = ("item__ordinal", "id", "output", "digest", "created_at")
        return {
            ordinal: (pk, output, digest, created_at.isoformat())
            for ordinal, pk, output, digest, created_at in rows.values_list(*columns)
        }


def _rule_calls(on: Installation, *, since: int = 0) -> list[Call]:
    return [c for c in on.provider.calls(since=since) if _number(c)]


def _number(call: Call) -> int:
    found = re.match(r"task: write-rule ([0-9]+)", call["last_user"])
    return int(found.group(1)) if found else 0


def _named(calls: Sequence[Call]) -> str:
    return ", ".join(str(n) for n in sorted(_number(c) for c in calls)) or "none"


def _observed(
    on: Installation,
    job: Job,
    contract: str,
    saved: dict[int, Row],
    calls_before: list[Call],
    calls_after: list[Call],
) -> dict[str, Any]:
    now = _saved_rules(on, job)
    key = on.operation_key(job.pk)
    sent = [r for r in on.erp.requests(path=f"/{contract}/policies") if r["method"] == "POST"]
    seen: dict[str, Any] = {
        "job": job.label,
        "contract": contract,
        "state": on.job(job.pk).state,
        "saved_before_kill": len(saved),
        "calls_before_kill": len(calls_before),
        "calls_after_restart": len(calls_after),
        "rules_asked_again": sorted(_number(c) for c in calls_after),
        "saved_unchanged": all(now.get(number) == row for number, row in saved.items()),
        "saved_in_the_end": len(now),
        "effects": len(on.erp.effects()),
        "requests": len(sent),
        "operation_key": key,
        "keys_sent": sorted({r["key"] for r in sent if r["key"]}),
        "journal_fault": on.journal_fault(job.pk),
    }
    expected = {
        "state": JobState.CONFIRMED.value,
        # Exactly the rules that were not saved, each once, whatever the number of slots.
        "rules_asked_again": sorted(set(range(1, RULES + 1)) - set(saved)),
        "saved_unchanged": True,
        "saved_in_the_end": RULES,
        "effects": 1,
        "keys_sent": [] if contract == "neither" else [key],
        "journal_fault": "",
    }
    require_promised(job, seen, **expected)
    on.teller.step(
        f"{job.label}: {seen['state']}, {len(saved)} saved rules unchanged, {seen['effects']} effect, journal valid"
    )
    return seen
