"""The embedded server, started, shared, killed and stopped by real processes."""

import os
import shutil
import signal
from pathlib import Path

import psycopg
import pytest

from tests.config.processes import (
    User,
    has_stopped,
    is_running,
    keepers,
    postmaster,
    until,
    user_of,
)

pytestmark = pytest.mark.processes

FORKING = """
import os, sys
from config import database
print(database.login_url(), flush=True)
if os.fork():
    os._exit(0)
sys.stdin.read()
"""


def test_second_process_uses_the_server_that_runs(var: Path) -> None:
    with user_of(var) as first_url:
        pid = postmaster(var)
        with user_of(var) as second_url:
            assert second_url == first_url
            assert postmaster(var) == pid


def test_processes_that_start_at_once_get_one_server(var: Path) -> None:
    users = [User.start(var) for _ in range(4)]
    urls = {user.says() for user in users}
    assert len(urls) == 1
    assert len(keepers(var)) == 1
    for user in users:
        user.leave()


def test_server_stops_with_its_last_user(var: Path) -> None:
    first, second = User.start(var), User.start(var)
    first.says(), second.says()
    pid = postmaster(var)
    first.leave()
    assert is_running(pid)
    second.leave()
    until(lambda: has_stopped(var) and not is_running(pid))


def test_server_stops_when_its_last_user_is_killed(var: Path) -> None:
    user = User.start(var)
    user.says()
    pid = postmaster(var)
    user.kill()
    until(lambda: has_stopped(var) and not is_running(pid))


def test_forked_child_stays_a_user_when_its_parent_ends(var: Path) -> None:
    user = User.start(var, FORKING)
    url = user.says()
    user.process.wait(20)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    user.leave()
    until(lambda: has_stopped(var))


@pytest.mark.long
def test_user_that_comes_while_the_server_stops_gets_a_new_one(var: Path) -> None:
    for _ in range(5):
        with user_of(var) as url, psycopg.connect(url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_killed_postmaster_is_started_again_for_those_who_use_it(var: Path) -> None:
    with user_of(var) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
        pid = postmaster(var)
        os.kill(pid, signal.SIGKILL)
        until(lambda: _answers(url))
        assert postmaster(var) != pid
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT n FROM kept").fetchone() == (7,)


def test_everything_killed_at_once_starts_again_with_what_was_committed(var: Path) -> None:
    user = User.start(var)
    with psycopg.connect(user.says(), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
    for pid in (*keepers(var), postmaster(var)):
        os.kill(pid, signal.SIGKILL)
    user.kill()
    assert (var / "postgres" / "postmaster.pid").exists()
    with user_of(var) as url, psycopg.connect(url) as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (7,)


def test_server_of_a_killed_keeper_is_adopted_and_stops_with_its_last_user(var: Path) -> None:
    first = User.start(var)
    first.says()
    pid = postmaster(var)
    os.kill(keepers(var)[0], signal.SIGKILL)
    until(lambda: not keepers(var))
    second = User.start(var)
    second.says()
    assert postmaster(var) == pid
    first.leave()
    second.leave()
    until(lambda: has_stopped(var) and not is_running(pid))


@pytest.mark.long
@pytest.mark.parametrize("folder", ["a b, 'é'", "deep/" * 30 + "down"])
def test_odd_and_long_paths_are_fine(var: Path, folder: str) -> None:
    odd = var / folder
    odd.mkdir(parents=True)
    with user_of(odd) as url, psycopg.connect(url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    until(lambda: has_stopped(odd))


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user runs the server as itself")
def test_folder_of_root_alone_keeps_its_permissions_and_the_data_goes_elsewhere(var: Path) -> None:
    hidden = var / "hidden"
    hidden.mkdir(mode=0o700)
    for _ in range(2):
        with user_of(hidden / "var") as url, psycopg.connect(url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        until(lambda: has_stopped(hidden / "var"))
    assert hidden.stat().st_mode & 0o777 == 0o700
    assert (hidden / "var" / "postgres").is_symlink()
    shutil.rmtree((hidden / "var" / "postgres").resolve())


def test_login_role_is_no_superuser_and_owns_its_database(own_server: Path) -> None:
    from config import database

    with psycopg.connect(database.login_url()) as connection:
        role = connection.execute(
            "SELECT rolname, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, datname"
            " FROM pg_roles JOIN pg_database ON datdba = pg_roles.oid WHERE rolname = session_user"
        ).fetchall()
    assert role == [("counterfoil", False, False, True, True, "counterfoil")]


def test_server_listens_on_its_socket_only(own_server: Path) -> None:
    from config import database

    with psycopg.connect(database.login_url()) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
        assert connection.execute("SHOW fsync").fetchone() == ("on",)


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
