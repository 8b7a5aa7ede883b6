"""How people read the names of workflows: by their titles, where this process has them."""

from __future__ import annotations

from workflows import registry


def workflow_title(name: str) -> str:
    """The title of a workflow, or its name in words where it is not installed here."""
    return titles().get(name) or in_words(name)


def titles() -> dict[str, str]:
    """The title of each workflow that is installed here, by name; of several revisions, that of one."""
    return {w.name: w.title or in_words(w.name) for w in registry.workflows().values()}


def in_words(name: str) -> str:
    """vendor-onboarding as Vendor onboarding."""
    return name.replace("-", " ").replace("_", " ").capitalize()
