"""What the documents say against what the code says. A page that is out of date fails here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.management import get_commands

from access.roles import Role
from dispatch.authentication import OAuth, Signing, Tls
from dispatch.contracts import Action, Contract, Lookup, Signal, StatementFeed, Timeouts
from dispatch.item_terms import Items
from dispatch.states import OperationState
from reconciliation.models import CaseKind
from tests.docs import scanning
from tests.docs.generated import PLACES, ROOT, found_in, render
from workflows.models import AttemptOutcome
from workflows.states import ItemState, JobState

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
ORDER = "job → stage → work item → proposal → operation → case"


def read(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def first_column(page: str) -> set[str]:
    """Everything in back ticks in the first column of a page's tables."""
    cells = [line.split("|")[1] for line in read(page).splitlines() if line.startswith("| ")]
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


def anchor_of(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize(("name", "page"), [(n, p) for n, pages in PLACES.items() for p in pages])
def test_what_is_rendered_from_code_stands_in_the_page(name: str, page: str) -> None:
    assert found_in(page, name) == render(name), "run .venv/bin/python -m tests.docs.generated"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text("utf-8")):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{link} leads nowhere"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE)
            assert anchor in {anchor_of(h) for h in headings}, f"{link}: there is no such heading"


def test_every_page_stands_in_the_index() -> None:
    linked = {link.partition("#")[0] for link in LINK.findall(read("docs/README.md"))}
    assert {p.name for p in (ROOT / "docs").glob("*.md")} - {"README.md"} <= linked


def test_every_decision_stands_in_the_index_in_order() -> None:
    files = sorted(p.name for p in (ROOT / "docs" / "adr").glob("0*.md"))
    entries = re.findall(r"^\d+\. \[(.+)\]\((.+)\)$", read("docs/adr/README.md"), re.MULTILINE)
    assert [file for _, file in entries] == files
    for title, file in entries:
        assert read(f"docs/adr/{file}").splitlines()[0] == f"# {title}"


def test_every_state_has_its_meaning() -> None:
    rows = re.findall(r"^\| ([A-Z_]+) \| [^|]*\w", read("docs/lifecycle.md"), re.MULTILINE)
    wanted = [s.value for kind in (JobState, OperationState, ItemState) for s in kind]
    assert sorted(set(wanted)) == sorted(set(rows))


def test_every_outcome_of_an_attempt_and_kind_of_case_is_named() -> None:
    page = " ".join(read("docs/lifecycle.md").split())
    missing = [word for kind in (AttemptOutcome, CaseKind) for word in kind.values if word not in page]
    assert missing == []


def test_every_environment_variable_is_described_and_no_other() -> None:
    families = {name for name in first_column("docs/settings.md") if name.endswith("…")}
    assert families == {"COUNTERFOIL_RECEIVER_…", "COUNTERFOIL_EVENTS_…", "COUNTERFOIL_WEBHOOK_…"}
    assert first_column("docs/settings.md") - families == set(scanning.variables())


def test_every_event_is_described_and_no_other() -> None:
    assert sorted(first_column("docs/events.md")) == sorted(scanning.journal_events())


def test_events_that_open_a_case_say_so() -> None:
    source = read("reconciliation/apps.py")
    opening = set(re.findall(r'\("([a-z]+\.[a-z_]+)", listening\.\w+\)', source))
    lines = read("docs/events.md").splitlines()
    said = {line.split("`")[1] for line in lines if line.startswith("| `") and "Opens a case." in line}
    assert opening, "no hook was found"
    assert said == opening


def test_every_command_of_ours_is_described() -> None:
    commands = {
        p.stem
        for p in ROOT.glob("*/management/commands/*.py")
        if p.stem != "__init__" and not p.parts[-4].startswith(".")
    }
    assert commands <= {name.split()[0] for name in first_column("docs/commands.md")}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    named = set(re.findall(r"manage\.py ([a-z][a-z_]+)\b", page.read_text("utf-8")))
    assert sorted(named - set(get_commands())) == []


def test_every_target_of_the_makefile_is_described() -> None:
    targets = set(re.findall(r"^([a-z]+):.*## ", read("Makefile"), re.MULTILINE)) - {"help"}
    assert {f"make {t}" for t in targets} <= first_column("docs/commands.md")


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/commands.md"])
def test_every_make_command_of_a_page_exists(page: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", read("Makefile"), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z]+)\b(?=[`\s]*(?:[#`\n]|$))", read(page), re.MULTILINE))
    assert named, "no command was found"
    assert named <= targets


def test_the_order_of_locks_is_the_one_in_the_code() -> None:
    assert f"Global order: {ORDER}." in read("docs/concurrency.md")
    assert f"Global order: {ORDER}." in read("workflows/locks.py")
    assert ORDER in read("ARCHITECTURE.md")
    places = ORDER.split(" → ")
    for room in ("approvals", "dispatch", "reconciliation"):
        head = read(f"{room}/locks.py").split('"""')[1]
        found = [
            places.index(p) for p in re.findall("|".join(places), head.partition("Order:")[2].split(".\n")[0])
        ]
        assert len(found) > 2, f"{room}/locks.py does not state its order"
        assert found == sorted(found)


def test_the_machines_that_lock_are_named_where_the_locks_are() -> None:
    page, liveness = read("docs/concurrency.md"), read("workflows/engine/liveness.py")
    for name in ("LOCK_CLASS", "TAKEOVER_CLASS"):
        value = re.search(rf"^{name} = (\w+)$", liveness, re.MULTILINE)
        assert value is not None
        assert f"`{value.group(1)}`" in page
    channels = {
        c
        for p in scanning.sources(*scanning.ROOMS)
        for c in re.findall(r"NOTIFY (\w+)", p.read_text("utf-8"))
    }
    assert channels == {"counterfoil_work"}
    assert "`counterfoil_work`" in page


def test_every_field_of_a_contract_is_described() -> None:
    page = read("docs/receivers.md")
    models = (Contract, Action, Items, Lookup, Signal, StatementFeed, Timeouts, Signing, OAuth, Tls)
    missing = [f"{m.__name__}.{f}" for m in models for f in m.model_fields if f"`{f}`" not in page]
    assert missing == []


def test_every_role_has_its_column() -> None:
    head = next(line for line in read("docs/roles.md").splitlines() if line.startswith("| what |"))
    assert [c.strip() for c in head.strip("|").split("|")][1:] == [r.value for r in Role]


def test_the_rooms_are_the_layers_that_are_checked() -> None:
    layers = re.search(r"layers = \[(.*?)\]", read("pyproject.toml"), re.DOTALL)
    assert layers is not None
    checked = [room for line in re.findall(r'"(.+)"', layers.group(1)) for room in line.split(" | ")]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", read("ARCHITECTURE.md"), re.MULTILINE)
    assert [room for row in rows for room in re.findall(r"`(\w+)`", row)] == checked
