"""What was deployed under a revision stays what it is: compared at every start, with a sentence that says what changed."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connection

from access.roles import Role
from access.tenancy import reading
from config import database
from config.var import PROJECT
from tests.revisions.conftest import BOTH, RELEASE_1, Deploy, LetterJob
from tests.support import eventually, make_person, make_tenant
from workflows import known, registry
from workflows.actions.submit import submit_job
from workflows.engine.engine import Engine
from workflows.models import Attempt, KnownRevision

pytestmark = pytest.mark.django_db(transaction=True)
CHANGED = "tests.revisions.letters_1_changed"


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has just started."""
    monkeypatch.setattr(known, "_remembered", set())


def known_now() -> list[tuple[str, str, str]]:
    return [(k.workflow, k.revision, k.digest) for k in KnownRevision.objects.order_by("pk")]


@pytest.fixture
def changed_compatibly(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """The changed module, read with an environment that makes it compatible with a digest; and forgotten again."""

    def read(digest: str) -> None:
        monkeypatch.setenv("TEST_COMPATIBLE_WITH", digest[:12])
        sys.modules.pop(CHANGED, None)

    yield read
    sys.modules.pop(CHANGED, None)


def test_what_is_loaded_is_written_down_once(deploy: Deploy) -> None:
    deploy(BOTH)
    known.remember()
    known.remember()
    assert known_now() == [
        ("test-letters", "1", registry.digests()["test-letters", "1"]),
        ("test-letters", "2", registry.digests()["test-letters", "2"]),
    ]
    first = KnownRevision.objects.get(revision="1")
    assert json.loads(first.described)["order"] == ["sort", "write", "bind", "propose"]
    call_command("check", databases=["default"])


def test_a_changed_definition_is_refused_with_what_changed_and_what_to_do(deploy: Deploy) -> None:
    deploy(RELEASE_1)
    known.remember()
    before = known_now()
    deploy(CHANGED)
    with pytest.raises(known.DefinitionChanged) as refused:
        known.remember()
    with pytest.raises(
        SystemCheckError, match=r"\(counterfoil\.E007\) test-letters revision 1 is not what it"
    ):
        call_command("check", databases=["default"])
    call_command("check")
    assert known_now() == before
    sentence = str(refused.value)
    assert sentence.startswith(
        "test-letters revision 1 is not what it was when it was first deployed here, on 20"
    )
    assert (
        'step "bind" is gone; step "stamp" is new; step "bind-" is new; step "write": result.salutation is new'
        '; the settings: tone is new ("cold"). Give what you have changed a revision of its own'
    ) in sentence
    assert sentence.endswith(f'say so: compatible_with=("{before[0][2][:12]}",).')


def test_a_definition_that_says_it_is_compatible_runs_the_jobs_of_both(
    deploy: Deploy, changed_compatibly: Callable[[str], None]
) -> None:
    deploy(RELEASE_1)
    known.remember()
    old = registry.digests()["test-letters", "1"]
    changed_compatibly(old)
    deploy(CHANGED)
    known.remember()
    new = registry.digests()["test-letters", "1"]
    assert [digest for _, _, digest in known_now()] == [old, new]
    assert registry.pinned("test-letters", "1", old) is registry.pinned("test-letters", "1", new)
    with connection.cursor() as cursor:
        assert known.runnable(cursor) == [k.pk for k in KnownRevision.objects.order_by("pk")]

    deploy(RELEASE_1)  # the old code comes back beside it, or in its place
    known.remember()
    with connection.cursor() as cursor:
        assert known.runnable(cursor) == [KnownRevision.objects.get(digest=old).pk]
    with pytest.raises(registry.RevisionMissing, match="is deployed here with another configuration"):
        registry.pinned("test-letters", "1", new)


def test_no_job_pins_a_definition_that_has_changed(deploy: Deploy) -> None:
    deploy(RELEASE_1)
    known.remember()
    deploy(CHANGED)
    tenant = make_tenant()
    person = make_person(tenant, Role.SUBMITTER)
    with pytest.raises(known.DefinitionChanged):
        submit_job(
            tenant_id=tenant.pk,
            workflow="test-letters",
            value={"folder": "x", "names": []},
            submission_key="k",
            person_id=person.pk,
            source="tests",
            now=tenant.created_at,
        )


PROCESSES: dict[str, list[str]] = {
    "check": ["manage.py", "check", "--database", "default"],
    "migrate": ["manage.py", "migrate", "-v", "0"],
    "qcluster": ["manage.py", "qcluster"],
    "web": ["-c", "import config.wsgi"],
}


def start(arguments: list[str], *modules: str, **more: str) -> subprocess.Popen[str]:
    environment: dict[str, Any] = {**os.environ, "COUNTERFOIL_WORKFLOWS": ",".join(modules), **more}
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=PROJECT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.processes
@pytest.mark.parametrize(
    "process", ["web", *(pytest.param(p, marks=pytest.mark.long) for p in ("qcluster", "check", "migrate"))]
)
def test_no_process_starts_with_a_changed_definition(deploy: Deploy, process: str) -> None:
    deploy(RELEASE_1)
    known.remember()
    ended = start(PROCESSES[process], CHANGED)
    said, _ = ended.communicate(timeout=60)
    assert ended.returncode == 1
    assert "test-letters revision 1 is not what it was when it was first deployed here" in said
    assert "Traceback" not in said


@pytest.mark.processes
def test_of_two_processes_that_start_at_once_with_different_definitions_one_is_refused() -> None:
    both = [start(PROCESSES["web"], module) for module in (RELEASE_1, CHANGED)]
    said = [p.communicate(timeout=60)[0] for p in both]
    assert sorted(p.returncode for p in both) == [0, 1], said
    assert sum("is not what it was" in s for s in said) == 1
    assert len(known_now()) == 1


@pytest.mark.long
@pytest.mark.processes
def test_a_first_start_has_nothing_to_compare_with() -> None:
    """A database without a table: checked, served by the web (which waits for its tables), migrated, checked."""
    name = f"counterfoil_test_first_{secrets.token_hex(4)}"
    url = database.create_database(name)
    try:
        for process in ("check", "web", "migrate", "check"):
            ended = start(PROCESSES[process], BOTH, DATABASE_URL=url)
            said, _ = ended.communicate(timeout=90)
            assert ended.returncode == 0, said
            assert "Traceback" not in said
    finally:
        database.drop_database(name)


@pytest.mark.long
@pytest.mark.processes
def test_many_processes_of_one_release_start_at_once() -> None:
    all_of_them = [start(PROCESSES["web"], BOTH) for _ in range(4)]
    said = [p.communicate(timeout=60)[0] for p in all_of_them]
    assert [p.returncode for p in all_of_them] == [0] * 4, said
    assert len(known_now()) == 2


def test_a_saved_result_that_is_not_of_the_type_any_more_stops_the_step_at_once(
    deploy: Deploy,
    letter_job: Callable[..., LetterJob],
    engine: Callable[[], Engine],
    changed_compatibly: Callable[[str], None],
) -> None:
    """Somebody has said that two definitions are compatible which are not: old letters have no salutation."""
    deploy(RELEASE_1)
    job = letter_job("Ada", "Bob?")
    engine()
    eventually(
        lambda: len(job.saved("write")) == 1 and len(job.notes("write")) == 2, what="one of two letters"
    )
    changed_compatibly(registry.digests()["test-letters", "1"])
    deploy(CHANGED)
    job.go()
    eventually(lambda: "item.refused" in job.events(), what="the step that stops")
    assert job.saved("stamp") == {"1": '{"count":2}'}
    with reading(job.tenant.pk):
        (attempt,) = Attempt.objects.filter(item__job_id=job.job_id, item__stage__name="bind-")
    assert attempt.outcome == "permanent"
    assert attempt.error_class.endswith("MadeByAnOlderVersion")
    assert attempt.error_message == (
        "What write saved was made by an older version of the workflow, and is not what this step takes as written:"
        " 0.salutation: Field required. Put the type back, or give it a revision of its own with a migration."
    )
