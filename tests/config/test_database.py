"""The choice of server, and the sentence for each server that will not do."""

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from config import database, embedded
from config.database import DatabaseUnusable
from config.var import PROJECT
from tests.config.processes import environment

UNREACHABLE = "postgresql://counterfoil:secret@/counterfoil?host=/nonexistent"


def _superuser() -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(embedded.server_url(user="postgres", database="postgres"), autocommit=True)


def _refusal(url: str) -> str:
    with pytest.raises(DatabaseUnusable) as refused:
        database.check_server(url)
    sentence = str(refused.value)
    assert "\n" not in sentence
    assert "secret" not in sentence
    return sentence


def test_parts_of_an_address_are_named_as_django_does() -> None:
    assert database.parameters("postgresql://ann:p%40ss@db.example:6543/books?sslmode=require") == {
        "NAME": "books",
        "USER": "ann",
        "PASSWORD": "p@ss",
        "HOST": "db.example",
        "PORT": "6543",
        "OPTIONS": {"connect_timeout": 10, "sslmode": "require"},
    }


def test_host_may_be_the_folder_of_a_socket() -> None:
    named = database.parameters("postgresql://ann@/books?host=/run/pg")
    assert (named["HOST"], named["NAME"], named["PORT"]) == ("/run/pg", "books", "")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://ann@db/books", "other databases are not supported"),
        ("sqlite:///books.db", "other databases are not supported"),
        ("postgresql://ann@db/books?nonsense=1", "is not a PostgreSQL address"),
        ("postgresql://ann@db:5432/", "names no database"),
    ],
)
def test_address_that_is_none_is_refused_in_one_sentence(url: str, words: str) -> None:
    assert words in _refusal(url)


def test_unreachable_server_is_named() -> None:
    sentence = _refusal(UNREACHABLE)
    assert sentence.startswith("The database server at /nonexistent cannot be reached")
    assert sentence.endswith("start it, or check DATABASE_URL.")


@pytest.mark.processes
class TestOnAServer:
    @pytest.fixture(autouse=True)
    def _server(self, shared_server: None) -> None:
        self.url = database.login_url()

    def test_embedded_server_will_do(self) -> None:
        database.check_server(self.url)

    def test_missing_database_comes_with_the_statement_that_makes_it(self) -> None:
        assert 'CREATE DATABASE "nowhere" OWNER "counterfoil";' in _refusal(database.url_for("nowhere"))

    def test_superuser_is_refused_with_the_statements_for_another_role(self) -> None:
        sentence = _refusal(embedded.server_url(user="postgres"))
        assert 'The login role "postgres" is a superuser' in sentence
        assert "CREATE ROLE counterfoil LOGIN CREATEROLE" in sentence
        assert 'ALTER DATABASE "counterfoil" OWNER TO counterfoil;' in sentence

    def test_old_server_is_refused_with_its_version(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(database, "OLDEST_VERSION", 99)
        assert "Counterfoil needs 99 or newer" in _refusal(self.url)

    def test_copy_holds_the_content_and_belongs_to_the_login_role(self) -> None:
        with psycopg.connect(database.create_database("a template"), autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
        with psycopg.connect(database.copy_database("a template", "a copy"), autocommit=True) as connection:
            assert connection.execute("SELECT n FROM kept").fetchone() == (7,)
            assert connection.execute(
                "SELECT pg_get_userbyid(datdba), has_database_privilege('public', oid, 'TEMP')"
                " FROM pg_database WHERE datname = current_database()"
            ).fetchone() == ("counterfoil", False)
            database.drop_database("a copy")  # although this session is in it
        database.drop_database("a copy")
        assert "does not exist" in _refusal(database.url_for("a copy"))


class TestOnAServerOfItsOwn:
    """What changes the roles of the whole server."""

    @pytest.fixture(autouse=True)
    def _server(self, own_server: Path) -> None:
        self.url = database.login_url()

    def test_role_that_bypasses_row_security_is_refused(self) -> None:
        with _superuser() as connection:
            connection.execute("CREATE ROLE dumper LOGIN BYPASSRLS")
        assert 'The login role "dumper" bypasses row level security' in _refusal(
            embedded.server_url(user="dumper")
        )

    def test_role_that_may_not_make_the_missing_roles_is_refused(self) -> None:
        with _superuser() as connection:
            connection.execute("CREATE ROLE plain LOGIN")
        assert 'ALTER ROLE "plain" CREATEROLE;' in _refusal(embedded.server_url(user="plain"))

    def test_role_that_is_no_member_of_existing_roles_is_told_the_grant(self) -> None:
        with _superuser() as connection:
            for role in database.ROLES:
                connection.execute(f"CREATE ROLE {role} NOLOGIN")
        sentence = _refusal(self.url)
        grant = 'GRANT counterfoil_app, counterfoil_engine, counterfoil_journal TO "counterfoil" WITH ADMIN OPTION;'
        assert grant in sentence
        with _superuser() as connection:
            connection.execute(grant)
        database.check_server(self.url)

    def test_role_without_createrole_will_do_once_the_roles_are_its_own(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for role in database.ROLES:
                connection.execute(f"CREATE ROLE {role} NOLOGIN")
        database.check_server(self.url)
        with _superuser() as connection:
            connection.execute("ALTER ROLE counterfoil NOCREATEROLE")
        database.check_server(self.url)

    def test_role_that_may_not_create_databases_is_told_the_statement(self) -> None:
        with _superuser() as connection:
            connection.execute("ALTER ROLE counterfoil NOCREATEDB")
        with pytest.raises(DatabaseUnusable, match='ALTER ROLE "counterfoil" CREATEDB;'):
            database.create_database("another")


@pytest.mark.processes
@pytest.mark.parametrize("command", [["migrate"], ["showmigrations"], ["shell", "-c", "1"]])
def test_command_answers_an_unreachable_server_with_one_line(var: Path, command: list[str]) -> None:
    ended = _manage(var, *command, DATABASE_URL=UNREACHABLE)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1
    assert "cannot be reached" in ended.stderr


@pytest.mark.processes
def test_help_starts_no_server(var: Path) -> None:
    ended = _manage(var, "help")
    assert ended.returncode == 0
    assert not (var / "postgres").exists()


def _manage(var: Path, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=PROJECT,
        env=environment(var, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
