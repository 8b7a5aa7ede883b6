"""The web while its database is away: a page that says so, for everybody who asks, and nothing to do afterwards."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from access.roles import Role
from config.var import PROJECT
from tests.faults.outages import clock_of, no_connections
from tests.support import eventually, make_person, make_tenant

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]


@contextmanager
def web(log: Path) -> Iterator[str]:
    """The address of gunicorn with the product's application."""
    with socket.create_server(("127.0.0.1", 0)) as listening, open(log, "ab") as output:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "gunicorn", "config.wsgi", "--workers", "1", "--threads", "4"),
                *("--bind", f"fd://{listening.fileno()}", "--graceful-timeout", "2"),
            ],
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(listening.fileno(),),
        )
    try:
        eventually(lambda: _answers(address), seconds=60, what=f"{address}/healthz")
        yield address
    finally:
        server.terminate()
        server.wait(15)


def test_pages_say_that_the_database_is_away_and_come_back_by_themselves(
    transactional_db: None, tmp_path: Path
) -> None:
    tenant = make_tenant()
    person = make_person(tenant, Role.SUBMITTER, Role.OPERATOR)
    owner = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
    since = clock_of(owner)
    home, job = f"/t/{tenant.slug}/", f"/api/v1/t/{tenant.slug}/jobs/1"
    with (
        owner,
        web(tmp_path / "web.log") as address,
        httpx.Client(base_url=address, trust_env=False) as browser,
    ):
        _sign_in(browser, person.username)
        assert browser.get(home).status_code == 200
        assert browser.get(job).status_code == 404

        with no_connections(owner, since=since):
            page = browser.get(home)
            assert (page.status_code, page.headers["retry-after"]) == (503, "5")
            assert '<h1 tabindex="-1">The database cannot be reached</h1>' in page.text
            assert "Nothing was changed." in page.text
            posted = browser.post(f"{home}jobs/1/hold/", data=_token(browser), headers={"referer": address})
            assert posted.status_code == 503
            assert "We cannot say from here whether your last action was recorded." in posted.text
            asked = browser.get(job)
            assert (asked.status_code, asked.headers["content-type"]) == (503, "application/problem+json")
            for monitored in ("/healthz", "/healthz/work"):
                for asked_by in (httpx.Client(base_url=address, trust_env=False), browser):
                    answer = asked_by.get(monitored)
                    assert (answer.status_code, answer.json()["database"]) == (503, "cannot be reached")
            for shown in (page, posted, asked):
                assert not re.search(r"Traceback|psycopg|OperationalError|FATAL", shown.text)

        assert browser.get(home).status_code == 200
        assert browser.get(job).status_code == 404
        assert browser.get("/healthz").json() == {"status": "ok"}


def _sign_in(browser: httpx.Client, handle: str) -> None:
    browser.get("/sign-in/")
    entered = {"username": handle, "password": "correct horse", **_token(browser)}
    assert browser.post("/sign-in/", data=entered).status_code == 302


def _token(browser: httpx.Client) -> dict[str, str]:
    return {"csrfmiddlewaretoken": browser.cookies["csrftoken"]}


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/healthz", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
