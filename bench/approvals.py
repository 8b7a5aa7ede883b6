"""People who approve: a hundred managers at the API's door at once, and the page over fifty thousand open proposals."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from typing import Any

from django.utils import timezone

from bench.installation import PROJECT, Installation, installation, workers
from bench.ours import SLOTS, p95

WARMING = 16
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
        cookies = _managers(there, managers)
        there.submit("bench-approval", {"amount": "100.00"}, proposals)
        with workers(there, processes=2, slots=SLOTS):
            there.until(lambda: there.one(_WAITING) == proposals, 900)
        asked = there.owner.execute("SELECT id, digest FROM approvals_proposal ORDER BY id").fetchall()
        with web(there) as port:
            return _decided(there, port, cookies, asked, every)


def listing(waiting: int, times: int = 40) -> Listing:
    """The page with so many open proposals: fifty for the person behind all that is above their limit, and then none."""
    with installation() as there, receiver(there):
        (cookie,) = _managers(there, 1)
        there.submit("bench-approval", {"amount": "6000.00"})
        with workers(there, processes=1, slots=SLOTS):
            there.until(lambda: there.one(_WAITING) == 1)
        clone(there, waiting)
        subprocess.run(
            [sys.executable, "manage.py", "collectstatic", "--noinput", "-v", "0"], cwd=PROJECT, check=True
        )
        with web(there) as port:
            for_me = _page(port, cookie, "", times)
            everyone = _page(port, cookie, "?tab=everyone", times)
            with _without_triggers(there, "approvals_proposal"):
                there.owner.execute("UPDATE approvals_proposal SET amount = 6000")
            there.owner.execute("VACUUM ANALYZE approvals_proposal")
            return Listing(for_me, everyone, _page(port, cookie, "", times))


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
                lambda _: _page(port, cookies[0], "", 3, "/api/v1/t/bench/proposals"),
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


def _page(port: int, cookie: str, query: str, times: int, path: str = "/t/bench/approvals/") -> float:
    """p95 of one page in milliseconds."""
    door, found = http.client.HTTPConnection("127.0.0.1", port, timeout=120), []
    for _ in range(times):
        begun = time.perf_counter()
        door.request("GET", f"{path}{query}", headers={"Cookie": f"sessionid={cookie}"})
        answer = door.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}")
        found.append((time.perf_counter() - begun) * 1000)
    return p95(found[2:])


@contextlib.contextmanager
def web(there: Installation) -> Iterator[int]:
    """The web server as `make run` starts it: gunicorn, two processes of four threads."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "gunicorn", "config.wsgi", "-w", "2", "--threads", "4"),
                *("-b", f"fd://{listening.fileno()}", "--graceful-timeout", "2", "--log-level", "error"),
            ],
            cwd=PROJECT,
            env=os.environ.copy(),
            pass_fds=(listening.fileno(),),
        )
        port = listening.getsockname()[1]
        try:
            there.until(lambda: _is_up(port))
            yield port
        finally:
            server.terminate()
            server.wait(30)


def _is_up(port: int) -> bool:
    door = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    door.request("GET", "/healthz")
    return door.getresponse().status == 200


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


def _managers(there: Installation, count: int) -> list[str]:
    """So many managers, each with a session; its key."""
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.sessions.backends.db import SessionStore

    from access.models import Membership, Person
    from access.roles import Role
    from access.tenancy import acting

    keys = []
    for number in range(count):
        person = Person.objects.create(username=f"manager-{number}", password="!")
        with acting(there.tenant_id):
            Membership.objects.create(tenant_id=there.tenant_id, person=person, role=Role.MANAGER)
        session = SessionStore()
        session[SESSION_KEY] = str(person.pk)
        session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
        session[HASH_SESSION_KEY] = person.get_session_auth_hash()
        session.create()
        keys.append(str(session.session_key))
    return keys


def clone(there: Installation, count: int) -> None:
    """So many copies of the one proposal that there is, with jobs and first journal rows; the last fifty are small."""
    tables = ("workflows_job", "workflows_journalentry", "approvals_proposal")
    with contextlib.ExitStack() as stack:
        for table in tables:
            stack.enter_context(_without_triggers(there, table))
        _copy(there, tables[0], count, {"id": "1000000 + n", "submission_key": "'copy ' || n"})
        _copy(there, tables[1], count, {"job_id": "1000000 + n"}, "AND t.event = 'job.received'")
        _copy(
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


def _copy(there: Installation, table: str, count: int, changed: dict[str, str], where: str = "") -> None:
    rows = there.owner.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_name = %s"
        " AND is_generated = 'NEVER' AND (column_name <> 'id' OR %s)",
        [table, "id" in changed],
    ).fetchall()
    names = [row[0] for row in rows]
    values = ", ".join(changed.get(name, f't."{name}"') for name in names)
    columns = ", ".join(f'"{name}"' for name in names)
    there.owner.execute(
        f"INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {values} FROM {table} t,"  # type: ignore[arg-type]
        f" generate_series(1, {count}) n WHERE t.id < 1000000 {where}"
    )


@contextlib.contextmanager
def _without_triggers(there: Installation, table: str) -> Iterator[None]:
    there.owner.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")  # type: ignore[arg-type]
    yield
    there.owner.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")  # type: ignore[arg-type]
