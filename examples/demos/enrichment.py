"""500 vendors, each completed by a model and two APIs, approved once as a whole, then written one by one.

The rating API refuses vendor 320 for a while; the limit closes, and the workers are redeployed in that while. Later, in
the middle of the writes, the process that waits for an answer is killed. No vendor is asked about twice but the one that
was refused, and each is written once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from access.tenancy import reading
from dispatch.models import Operation
from dispatch.states import OperationState
from examples.demos.installation import Installation, NotSeen
from examples.demos.workers import kill_worker, live_workers, worker_at_work_on
from examples.management import vendor_list
from examples.management.sample import MANAGER
from examples.simulators.bureau.companies import register_number
from examples.simulators.client import LoggedRequest
from workflows.models import Checkpoint, Job, WorkItem
from workflows.states import ItemState, JobState

WORKERS, SLOTS = 2, 4
RECORDS, REFUSED_AT, KILLED_AT = 500, 320, 250
RETRY_AFTER = 12
ANSWER_SECONDS = 4.0
LONGEST_WAIT = 240.0
"""Seconds: 500 of anything take their time on a machine that has other things to do."""
ASKED = ("read-entry", "look-up", "rate")
Row = tuple[int, str, str, datetime]


@dataclass(frozen=True)
class Names:
    """How the vendors of the list are called where they are asked about, by their place in the list from 1."""

    ids: dict[str, int]
    register: dict[str, int]
    credit: dict[str, int]

    @classmethod
    def make(cls) -> Names:
        ids, register, credit = {}, {}, {}
        for place in range(1, RECORDS + 1):
            name, country = vendor_list.plain_name(place), vendor_list.country(place)
            ids[vendor_list.vendor_id(place)] = place
            register[f"/register/companies/{country}/{quote(name)}"] = place
            credit[f"/credit/ratings/{register_number(country, name)}"] = place
        return cls(ids, register, credit)


def play(on: Installation, *, contract: str) -> dict[str, Any]:
    """Run the story; what was observed. Raises NotSeen where that is not what is promised."""
    names = Names.make()
    refused = next(path for path, place in names.credit.items() if place == REFUSED_AT)
    on.bureau.set_fault("status_429", path=refused, method="GET", retry_after=str(RETRY_AFTER))
    on.teller.step(
        f"The rating API will refuse vendor {REFUSED_AT} once: 429, Retry-After {RETRY_AFTER} seconds"
    )
    job = on.submit(
        "record-enrichment",
        {"reference": "DEMO-ENRICHMENT", "records": vendor_list.vendor_list(RECORDS), "erp": contract},
    )
    on.teller.step(f"{job.label} submitted: {RECORDS} vendors, a model and two APIs each")
    redeployed = _redeploy_in_the_backoff(on, job, refused)
    on.wait_for_state(job.pk, JobState.AWAITING_APPROVAL, seconds=LONGEST_WAIT)
    asked = _asked(on, job, names, refused, redeployed)
    _approve(on, job)
    killed = _kill_in_the_writes(on, job, contract)
    goal = JobState.NEEDS_RECONCILIATION if contract == "neither" else JobState.CONFIRMED
    on.wait_for_state(job.pk, goal, seconds=LONGEST_WAIT)
    on.wait(lambda: not _under_way(on, job), what="an end of what was on its way to the receiver")
    on.teller.step(f"{job.label} is {goal}")
    return {**asked, **killed, **_written(on, job, contract, goal)}


# --- asking -----------------------------------------------------------------------------------------------------------


def _redeploy_in_the_backoff(on: Installation, job: Job, refused: str) -> dict[str, dict[int, Row]]:
    """Once the API has refused: stop the workers as a deploy does, start new ones. What was saved by then, by step."""

    def backs_off() -> bool:
        with reading(on.tenant_id):
            items = WorkItem.objects.filter(job=job, stage__name="rate")
            done = items.filter(state=ItemState.SUCCEEDED.number).count()
            refused = items.filter(state=ItemState.BACKING_OFF.number).exists()
        on.teller.progress(f"{done} of {RECORDS} vendors rated")
        return refused

    on.wait(backs_off, seconds=LONGEST_WAIT, what=f"vendor {REFUSED_AT} waiting for its Retry-After")
    on.teller.step(f"The rating API has refused vendor {REFUSED_AT}: its limit is closed for that long")
    newest = on.newest_worker()
    took = on.cluster.stop()
    saved = {step: _saved(on, job, step) for step in ASKED}
    on.teller.step(
        f"Workers stopped for a deploy (SIGTERM, {took:.1f} s): {len(saved['rate'])} vendors rated,"
        f" {'all' if _first(saved['rate']) else 'not all'} {REFUSED_AT - 1} before vendor {REFUSED_AT} among them"
    )
    on.cluster.start()
    on.wait_for_workers(WORKERS, newer_than=newest)
    waits = len(on.bureau.requests(path=refused)) == 1
    on.teller.step(f"New workers are up, {'during the backoff' if waits else 'after the backoff'}")
    return saved


def _first(rows: dict[int, Row]) -> bool:
    return set(range(1, REFUSED_AT)) <= set(rows)


def _saved(on: Installation, job: Job, step: str) -> dict[int, Row]:
    """The checkpoints of a step by the vendor's place, each with everything that is in its row."""
    with reading(on.tenant_id):
        rows = Checkpoint.objects.filter(item__job=job, item__stage__name=step)
        columns = ("item__ordinal", "id", "output", "digest", "created_at")
        return {ordinal: tuple(row) for ordinal, *row in rows.values_list(*columns)}


def _asked(
    on: Installation, job: Job, names: Names, refused: str, before: dict[str, dict[int, Row]]
) -> dict[str, Any]:
    """How often each vendor was asked about, at the model and at each API."""
    model = Counter(_vendor_of(call["last_user"], names) for call in on.provider.calls())
    register = _counted(on.bureau.requests(path="/register/"), names.register)
    credit = _counted(on.bureau.requests(path="/credit/"), names.credit)
    twice = on.bureau.requests(path=refused)
    once = dict.fromkeys(range(1, RECORDS + 1), 1)
    after = {step: _saved(on, job, step) for step in ASKED}
    seen: dict[str, Any] = {
        "job": job.label,
        "rated_before_redeploy": len(before["rate"]),
        "first_319_rated_before": _first(before["rate"]),
        "saved_unchanged": all(
            after[step].get(place) == row for step in ASKED for place, row in before[step].items()
        ),
        "model_calls": model.total(),
        "register_calls": register.total(),
        "credit_calls": credit.total(),
        "credit_calls_in_the_backoff": _in_the_backoff(on, twice[0]),
        "asked_more_than_once": sorted(p for c in (model, register, credit) for p in c if c[p] > 1),
        "statuses_of_the_refused": [r["status"] for r in twice],
        "waited_seconds": _between(twice),
    }
    expected = {
        "first_319_rated_before": True,
        "saved_unchanged": True,
        "asked_more_than_once": [REFUSED_AT],
        "statuses_of_the_refused": [429, 200],
    }
    _check(job, seen, expected)
    if not (dict(model) == dict(register) == once and dict(credit) == {**once, REFUSED_AT: 2}):
        raise NotSeen(f"Not every vendor was asked about once at each place: {seen}.")
    if seen["waited_seconds"] < RETRY_AFTER:
        raise NotSeen(f"Vendor {REFUSED_AT} was asked again after {seen['waited_seconds']} s already.")
    if seen["credit_calls_in_the_backoff"] >= WORKERS * SLOTS:
        raise NotSeen(
            f"The rating API was asked {seen['credit_calls_in_the_backoff']} times before its time."
        )
    on.teller.step(
        f"All asked: {seen['model_calls']} model calls, {seen['register_calls']} of the register,"
        f" {seen['credit_calls']} of the rating API: only vendor {REFUSED_AT} twice, {seen['waited_seconds']:g} s apart"
        f" (in the backoff the API got {seen['credit_calls_in_the_backoff']}, on their way before it)"
    )
    return seen


def _vendor_of(last_user: str, names: Names) -> int:
    found = re.match(r"task: read-vendor (\S+)", last_user)
    return names.ids.get(found.group(1), 0) if found else 0


def _counted(requests: Iterable[LoggedRequest], places: dict[str, int]) -> Counter[int]:
    return Counter(places.get(request["path"], 0) for request in requests)


def _in_the_backoff(on: Installation, refused: LoggedRequest) -> int:
    """How much the rating API was asked before the time that it gave: no more than what was on its way."""
    until = datetime.fromisoformat(refused["at"]) + timedelta(seconds=RETRY_AFTER)
    later = [r for r in on.bureau.requests(path="/credit/") if r["id"] > refused["id"]]
    return sum(datetime.fromisoformat(r["at"]) < until for r in later)


def _between(requests: list[LoggedRequest]) -> float:
    """Seconds between the first and the last of them."""
    times = [datetime.fromisoformat(request["at"]) for request in requests]
    return round((max(times) - min(times)).total_seconds(), 1)


# --- writing ----------------------------------------------------------------------------------------------------------


def _approve(on: Installation, job: Job) -> None:
    on.teller.step(f"{MANAGER}, on all {RECORDS} at once: {on.approve(job.pk, MANAGER)}")


def _kill_in_the_writes(on: Installation, job: Job, contract: str) -> dict[str, Any]:
    """Between the receiver's commit of one write and our record of it, kill the process that waits for the answer."""
    record = vendor_list.vendor_id(KILLED_AT)
    on.erp.set_fault("slow", path=f"/{contract}/vendors/{record}", seconds=ANSWER_SECONDS)

    def applied() -> bool:
        with reading(on.tenant_id):
            done = Operation.objects.filter(job=job, state=OperationState.CONFIRMED).count()
        on.teller.progress(f"{done} of {RECORDS} written")
        return bool(on.erp.effects(record=record))

    on.wait(applied, seconds=LONGEST_WAIT, what=f"an effect on {record} at the receiver")
    with reading(on.tenant_id):
        operation = Operation.objects.get(job=job, record=record)
    worker = worker_at_work_on(tenant_id=on.tenant_id, job_id=job.pk, key=str(operation.pk))
    if worker is None:
        raise NotSeen(f"No worker holds the write of {record} while its request is open.")
    newest = on.newest_worker()
    kill_worker(worker)
    written = len(on.erp.effects())
    on.teller.step(f"{written} written; worker process {worker.pid}, amid its writes, was killed (SIGKILL)")
    on.wait_for_workers(newer_than=newest)
    pids = [w.pid for w in live_workers() if w.pk > newest]
    on.teller.step(f"A new worker process is up: {pids[0]}")
    return {"written_before_kill": written, "killed_worker": {"pid": worker.pid, "restarted_as": pids[0]}}


def _under_way(on: Installation, job: Job) -> bool:
    """Whether a write has not been answered: where the job stops for a person, others were begun before it did."""
    with reading(on.tenant_id):
        return Operation.objects.filter(job=job, state=OperationState.SUBMITTED).exists()


def _written(on: Installation, job: Job, contract: str, goal: JobState) -> dict[str, Any]:
    """What the receiver, the journal and the job say in the end."""
    with reading(on.tenant_id):
        operations = list(Operation.objects.filter(job=job))
    keys = {o.record: o.operation_key for o in operations}
    states = Counter(str(o.state) for o in operations)
    sent = [r for r in on.erp.requests(path=f"/{contract}/vendors/") if r["method"] == "PUT"]
    effects = Counter(effect["record"] for effect in on.erp.effects())
    bodies = {record: {r["body_sha256"] for r in sent if r["path"].endswith(record)} for record in effects}
    seen: dict[str, Any] = {
        "contract": contract,
        "state": on.job(job.pk).state,
        "operations": len(keys),
        "operation_states": dict(states),
        "effects": effects.total(),
        "records_written_twice": sorted(r for r, times in effects.items() if times > 1),
        "records_with_two_bodies": sorted(r for r, found in bodies.items() if len(found) > 1),
        "requests": len(sent),
        "journal_fault": on.journal_fault(job.pk),
    }
    expected: dict[str, Any] = {
        "state": goal.value,
        "operations": RECORDS,
        "records_written_twice": [],
        "records_with_two_bodies": [],
        "journal_fault": "",
        # Without key and look-up a write that may have been made stops all that were not begun, for a person to see.
        **({} if contract == "neither" else {"effects": RECORDS}),
    }
    _check(job, seen, expected)
    _check_keys(job, sent, keys if contract != "neither" else {})
    if not states["CONFIRMED"] <= seen["effects"] <= states["CONFIRMED"] + states["UNKNOWN"]:
        raise NotSeen(f"{job.label} says {dict(states)}, and the receiver has {seen['effects']} effects.")
    left = "".join(f", {count} {state.lower()}" for state, count in states.items() if state != "CONFIRMED")
    on.teller.step(
        f"{job.label}: {seen['effects']} effects on {len(effects)} vendors by {seen['requests']} requests,"
        f" {'without keys' if contract == 'neither' else 'each vendor with one key'}{left}, journal valid"
    )
    return seen


def _check_keys(job: Job, sent: list[LoggedRequest], keys: dict[str, str]) -> None:
    """Every request carried the key of its vendor's operation, and no other."""
    for request in sent:
        record = request["path"].rsplit("/", 1)[1]
        if (request["key"] or "") != keys.get(record, ""):
            raise NotSeen(f"{job.label} sent {record} with the key {request['key']}.")


def _check(job: Job, seen: dict[str, Any], expected: dict[str, Any]) -> None:
    wrong = {name: seen[name] for name, value in expected.items() if seen[name] != value}
    if wrong:
        raise NotSeen(f"{job.label} went otherwise than promised: {wrong}.")
