"""Pages over many rows: a web server in front of an installation, people who are signed in, and rows made by the thousand."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

from bench.installation import PROJECT, Installation
from bench.ours import p95


def page(port: int, cookie: str, path: str, times: int) -> float:
    """p95 of one page in milliseconds."""
    door, found = http.client.HTTPConnection("127.0.0.1", port, timeout=120), []
    for _ in range(times):
        begun = time.perf_counter()
        door.request("GET", path, headers={"Cookie": f"sessionid={cookie}"})
        answer = door.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}")
        found.append((time.perf_counter() - begun) * 1000)
    return p95(found[2:])


def collected() -> None:
    """The files that pages refer to, as the web server serves them."""
    command = [sys.executable, "manage.py", "collectstatic", "--noinput", "-v", "0"]
    subprocess.run(command, cwd=PROJECT, check=True)


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


def signed_in(there: Installation, count: int, role: str) -> list[str]:
    """So many people of a role, each with a session; its key."""
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.sessions.backends.db import SessionStore

    from access.models import Membership, Person
    from access.tenancy import acting

    keys = []
    for number in range(count):
        person = Person.objects.create(username=f"{role}-{number}", password="!")
        with acting(there.tenant_id):
            Membership.objects.create(tenant_id=there.tenant_id, person=person, role=role)
        session = SessionStore()
        session[SESSION_KEY] = str(person.pk)
        session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
        session[HASH_SESSION_KEY] = person.get_session_auth_hash()
        session.create()
        keys.append(str(session.session_key))
    return keys


def copied(there: Installation, table: str, count: int, changed: dict[str, str], where: str = "") -> None:
    """So many copies of the rows below 1,000,000, with these columns changed; `n` is the number of the copy."""
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
def without_triggers(there: Installation, table: str) -> Iterator[None]:
    there.owner.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")  # type: ignore[arg-type]
    yield
    there.owner.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")  # type: ignore[arg-type]
