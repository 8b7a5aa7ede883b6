"""People who approve: a hundred managers at the API's door at once, and the page over fifty thousand open proposals."""

from __future__ import annotations

import contextlib
import http.client
import json
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from typing import Any

from django.utils import timezone

from bench.installation import Installation, installation, workers
from bench.ours import SLOTS, p95
from bench.pages import collected, copied, page, signed_in, web, without_triggers

WARMING = 16
PATH = "/t/bench/approvals/"
TOKEN = secrets.token_hex(16)
_WAITING = "SELECT count(*) FROM workflows_job WHERE state = 'AWAITING_APPROVAL'"


@dataclass(frozen=True, slots=True)
class Deciding:
    """Milliseconds of each decision at the door, and how many there were a second. `wrong`: not decided once."""

    milliseconds: list[float]
    per_second: float
    wrong: int

    @property
    def p95(self) -> float:
        return p95(self.milliseconds)


@dataclass(frozen=True, slots=True)
class Listing:
    """Milliseconds of the page for a person, by tab, and the most queries that one took."""

    for_me: float
    everyone: float
    nothing_for_me: float


def decisions(managers: int, proposals: int, *, every: float = 0.0) -> Deciding:
    """Each manager approves their share, one after the other. `every`: seconds from one press to the next; 0: no pause."""
    with installation() as there, receiver(there):
        cookies = signed_in(there, managers, "manager")
        there.submit("bench-approval", {"amount": "100.00"}, proposals)
        with workers(there, processes=2, slots=SLOTS):
            there.until(lambda: there.one(_WAITING) == proposals, 900)
        asked = there.owner.execute("SELECT id, digest FROM approvals_proposal ORDER BY id").fetchall()
        with web(there) as port:
            return _decided(there, port, cookies, asked, every)


def listing(waiting: int, times: int = 40) -> Listing:
    """The page with so many open proposals: fifty for the person behind all that is above their limit, and then none."""
    with installation() as there, receiver(there):
        (cookie,) = signed_in(there, 1, "manager")
        there.submit("bench-approval", {"amount": "6000.00"})
        with workers(there, processes=1, slots=SLOTS):
            there.until(lambda: there.one(_WAITING) == 1)
        clone(there, waiting)
        collected()
        with web(there) as port:
            for_me = page(port, cookie, PATH, times)
            everyone = page(port, cookie, f"{PATH}?tab=everyone", times)
            with without_triggers(there, "approvals_proposal"):
                there.owner.execute("UPDATE approvals_proposal SET amount = 6000")
            there.owner.execute("VACUUM ANALYZE approvals_proposal")
            return Listing(for_me, everyone, page(port, cookie, PATH, times))


def _decided(there: Installation, port: int, cookies: list[str], asked: list[Any], every: float) -> Deciding:
    barrier, share = Barrier(len(cookies)), len(asked) // len(cookies)

    def manager(number: int) -> list[float]:
        door, found = http.client.HTTPConnection("127.0.0.1", port, timeout=120), []
        headers = {
            "Cookie": f"sessionid={cookies[number]}; csrftoken={TOKEN}",
            "X-CSRFToken": TOKEN,
            "Content-Type": "application/json",
        }
        barrier.wait()
        begun = time.perf_counter() + every * number / len(cookies)
        for turn, (proposal, digest) in enumerate(asked[number * share : (number + 1) * share]):
            time.sleep(max(0.0, begun + every * turn - time.perf_counter()) if every else 0.0)
            pressed = time.perf_counter()
            body = json.dumps({"verdict": "approve", "digest": digest})
            door.request("POST", f"/api/v1/t/bench/proposals/{proposal}/decisions", body, headers)
            answer = door.getresponse()
            told = answer.read()
            if answer.status != 201:
                raise RuntimeError(f"{answer.status} {told[:300]!r}")
            found.append((time.perf_counter() - pressed) * 1000)
            if every:  # the server does not keep an idle connection
                door.close()
        return found

    with ThreadPoolExecutor(
        WARMING
    ) as pool:  # what a process loads at its first request is not what is measured
        list(
            pool.map(
                lambda _: page(port, cookies[0], "/api/v1/t/bench/proposals", 3),
                range(WARMING),
                timeout=120,
            )
        )
    begun = time.perf_counter()
    with ThreadPoolExecutor(len(cookies)) as pool:
        found = [one for each in pool.map(manager, range(len(cookies))) for one in each]
    took = time.perf_counter() - begun
    once = there.one(
        "SELECT count(*) FROM (SELECT p.id FROM approvals_proposal p JOIN approvals_decision d ON d.proposal_id = p.id"
        " JOIN workflows_job j ON j.id = p.job_id WHERE j.state = 'READY_TO_COMMIT' AND p.approved_at IS NOT NULL"
        " GROUP BY p.id HAVING count(*) = 1) one"
    )
    return Deciding(found, len(found) / took, len(asked) - once)


@contextlib.contextmanager
def receiver(there: Installation) -> Iterator[None]:
    """A receiver that nothing is sent to here, and the policy of these proposals."""
    from access.roles import WORKER
    from approvals.policies import write_policy
    from approvals.ruleset import Limit, RuleSet
    from bench.whole import local_receiver, prepare

    with local_receiver() as port:
        prepare(there, port)
        rules = RuleSet(limits=(Limit(amount="5000.00", currency="EUR"),))  # type: ignore[arg-type]
        write_policy(
            tenant_id=there.tenant_id, name="bench", rules=rules, created_by=WORKER, now=timezone.now()
        )
        yield


def clone(there: Installation, count: int) -> None:
    """So many copies of the one proposal that there is, with jobs and first journal rows; the last fifty are small."""
    tables = ("workflows_job", "workflows_journalentry", "approvals_proposal")
    with contextlib.ExitStack() as stack:
        for table in tables:
            stack.enter_context(without_triggers(there, table))
        copied(there, tables[0], count, {"id": "1000000 + n", "submission_key": "'copy ' || n"})
        copied(there, tables[1], count, {"job_id": "1000000 + n"}, "AND t.event = 'job.received'")
        copied(
            there,
            tables[2],
            count,
            {
                "id": "1000000 + n",
                "job_id": "1000000 + n",
                "amount": f"CASE WHEN n > {count - 50} THEN 100 ELSE 6000 END",
                "amounts": f'CASE WHEN n > {count - 50} THEN \'[["100.00","EUR"]]\' ELSE t.amounts END',
                "expires_at": "t.expires_at + n * interval '1 second'",
            },
        )
    for table in tables:
        there.owner.execute(f"VACUUM ANALYZE {table}")
