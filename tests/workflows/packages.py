"""Packages of workflows as people install them: a module and its entry point, in a folder on the path."""

from __future__ import annotations

from pathlib import Path

WORKFLOW = """
from pydantic import BaseModel
from workflows.authoring import Ctx, ProposalDraft, Workflow

class Wish(BaseModel):
    text: str

{variable} = Workflow("{name}", revision="{revision}", input=Wish, title="{title}")

@{variable}.propose(approval="wishes")
def propose(ctx: Ctx, wish: Wish) -> ProposalDraft:
    raise NotImplementedError
"""


def source(name: str, *, revision: str = "1", title: str = "") -> str:
    """The text of a module that defines one workflow."""
    return WORKFLOW.format(
        variable=name.replace("-", "_"), name=name, revision=revision, title=title or name.capitalize()
    )


def install(folder: Path, package: str, text: str, *, entry: str = "") -> None:
    """What `pip install` leaves: the module, and the metadata that names it."""
    (folder / f"{package}.py").write_text(text)
    metadata = folder / f"{package}-1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
    (metadata / "entry_points.txt").write_text(f"[counterfoil.workflows]\n{package} = {entry or package}\n")
