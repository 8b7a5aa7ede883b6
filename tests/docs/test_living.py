"""The page on code changes: its blocks are run, and what it shows of commands is what they say of its own example."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from access.roles import Role
from access.tenancy import reading
from tests.docs.generated import ROOT
from tests.support import eventually, forget_workflows, install, make_person, make_tenant
from workflows import known
from workflows.actions.submit import submit_job
from workflows.authoring import Ctx, Workflow
from workflows.engine.engine import Engine
from workflows.models import Job, JournalEntry, StageKind

PAGE = ROOT / "docs" / "living-with-code-changes.md"
MODULE = "docs_living"


def blocks(language: str) -> list[tuple[int, str]]:
    """The page's blocks of a language, each with its line."""
    text = PAGE.read_text("utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [(text[: m.start(1)].count("\n"), m.group(1)) for m in found]


def shown(start: str) -> str:
    """The text block that begins so, without what differs from run to run."""
    (text,) = [text for _, text in blocks("text") if text.startswith(start)]
    return plainly(text)


def plainly(text: str) -> str:
    for what, by in ((r"\b[0-9a-f]{12}\b", "DIGEST"), (r"\d{4}-\d\d-\d\d", "DAY"), (r"JOB-\d+", "JOB")):
        text = re.sub(what, by, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """What the blocks define. An assertion in them that does not hold fails here."""
    names: dict[str, Any] = {"__name__": MODULE}
    for line, block in blocks("python"):
        exec(compile("\n" * line + block, str(PAGE), "exec", dont_inherit=True), names)
    return names


@pytest.fixture
def load(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Loads workflows in this process, as a release that has them."""

    def release(*workflows: Workflow) -> None:
        module = types.ModuleType(MODULE)
        vars(module).update({f"w{n}": w for n, w in enumerate(workflows)})
        monkeypatch.setitem(sys.modules, MODULE, module)
        install(settings, MODULE)

    monkeypatch.setattr(known, "_remembered", set())
    yield release
    forget_workflows()


def test_the_second_revision_is_the_first_with_what_the_page_says(page: dict[str, Any]) -> None:
    first, second = page["refunds"], page["refunds_2"]
    assert [s.name for s in first.steps] == ["sort", "assess", "propose"]
    assert [s.name for s in second.steps] == ["sort", "weigh", "check", "propose"]
    assert (first.current, second.current) == (False, True)
    assert second.migration_from("1") is page["from_1"]
    assert page["weighed"]({"order": "O-1", "amount": "3"}) == {"order": "O-1", "due": "3"}


@pytest.mark.django_db(transaction=True)
def test_the_commands_say_of_the_example_what_the_page_shows(
    page: dict[str, Any], load: Callable[..., None]
) -> None:
    tenant = make_tenant("acme")
    submitter = make_person(tenant, Role.SUBMITTER)
    make_person(tenant, Role.OPERATOR, handle="o.kern")
    load(page["refunds"])
    job_id = submit_job(
        tenant_id=tenant.pk,
        workflow="refunds",
        value={"customer": "C-7", "orders": ["O-2", "O-1", "X-3"]},
        submission_key="k",
        person_id=submitter.pk,
        source="tests",
        now=timezone.now(),
    ).job_id
    run_until(tenant.pk, job_id, "item.refused")
    load(page["refunds"], page["refunds_2"])
    assert (
        say("migrate_jobs", "refunds", "--from", "1", "--to", "2", "--dry-run")
        == (shown("$ manage.py migrate_jobs refunds --from 1 --to 2 --dry-run").partition("\n")[2])
    )
    known.remember()
    listed = re.sub(r"\d workers?", "2 workers", say("revisions"))
    assert re.sub(" +", " ", listed) == re.sub(" +", " ", shown("refunds\n"))

    (command,) = [text for _, text in blocks("text") if "--as o.kern" in text]
    arguments = command.strip().removeprefix("$ manage.py ").replace('"', "")
    before, _, reason = arguments.partition(" --reason ")
    assert say(*before.split(), "--reason", reason).endswith("1 of 1 migrated.")
    run_until(tenant.pk, job_id, "proposal.refused")
    with reading(tenant.pk):
        assert Job.objects.get(pk=job_id).revision == "2"


@pytest.mark.django_db(transaction=True)
def test_a_changed_definition_is_refused_with_the_sentence_of_the_page(
    page: dict[str, Any], load: Callable[..., None]
) -> None:
    load(page["refunds"])
    known.remember()
    first = page["refunds"]
    changed = Workflow("refunds", revision="1", input=page["Request"], settings=first.settings)
    sort = changed.step()(first.steps[0])

    def assess(ctx: Ctx, order: str) -> Any: ...

    assess.__annotations__ = {"ctx": Ctx, "order": str, "return": page["Weighed"]}
    changed.step(each=sort.orders)(assess)

    def propose(ctx: Ctx) -> Any: ...

    propose.__annotations__ = {"ctx": Ctx, "return": page["ProposalDraft"]}
    changed.propose(approval="refunds")(propose)
    load(changed)
    (sentence,) = known.changed()
    assert plainly(sentence) == shown("refunds revision 1 is not what it was")
    assert changed.steps[1].kind is StageKind.EACH


def say(*arguments: str) -> str:
    said = StringIO()
    try:
        call_command(*arguments, stdout=said)
    except CommandError as failed:
        said.write(f"{failed}\n")
    return plainly(said.getvalue())


def run_until(tenant_id: int, job_id: int, event: str) -> None:
    running = Engine(slots=4, lease_seconds=20)
    running.start_threads()
    try:
        eventually(lambda: event in events(tenant_id, job_id), what=event)
    finally:
        running.request_stop()
        running.join()


def events(tenant_id: int, job_id: int) -> set[str]:
    with reading(tenant_id):
        return set(JournalEntry.objects.filter(job_id=job_id).values_list("event", flat=True))
