"""The parts of the documents that are rendered from code, and putting them there: `python -m tests.docs.generated`."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = {
    "job-diagram": ("ARCHITECTURE.md", "docs/lifecycle.md"),
    "job-transitions": ("docs/lifecycle.md",),
    "operation-diagram": ("docs/lifecycle.md",),
    "case-kinds": ("docs/lifecycle.md",),
    "presets": ("docs/receivers.md",),
    "published-presets": ("docs/receivers.md",),
}
"""Each block, and the documents that hold it."""


def render(name: str) -> str:
    """A block's text as it should stand between its marks."""
    from workflows import diagram

    blocks = {
        "job-diagram": lambda: f"```mermaid\n{diagram.job_diagram()}\n```",
        "job-transitions": diagram.job_table,
        "operation-diagram": _operation_diagram,
        "case-kinds": _case_kinds,
        "presets": _presets,
        "published-presets": _published_presets,
    }
    return blocks[name]()


def found_in(document: str, name: str) -> str:
    """The text that a document holds between the block's marks; empty without them."""
    match = re.search(_pattern(name), (ROOT / document).read_text("utf-8"), re.DOTALL)
    return match.group(2) if match else ""


def write() -> None:
    """Bring every block of every document up to date."""
    for name, documents in PLACES.items():
        for document in documents:
            path, text = ROOT / document, render(name)
            path.write_text(
                re.sub(
                    _pattern(name),
                    lambda m, text=text: f"{m.group(1)}{text}{m.group(3)}",
                    path.read_text("utf-8"),
                    flags=re.DOTALL,
                ),
                "utf-8",
            )


def _pattern(name: str) -> str:
    return rf"(<!-- rendered: {name} -->\n)(.*?)(\n<!-- end of {name} -->)"


def _operation_diagram() -> str:
    from dispatch.states import MOVES, OperationState
    from workflows import diagram

    order = [s.value for s in OperationState]
    moves = sorted(((str(a), str(b)) for a, b in MOVES), key=lambda m: (order.index(m[0]), order.index(m[1])))
    edges = [("", OperationState.PREPARED.value, ""), *((a, b, "") for a, b in moves)]
    return f"```mermaid\n{diagram.mermaid(edges)}\n```"


def _case_kinds() -> str:
    from reconciliation.kinds import KINDS
    from workflows import diagram

    rows = [
        (
            kind.value,
            terms.owner.value,
            f"{terms.due_after.total_seconds() / 3600:g} h",
            "yes" if terms.blocking else "no",
            ", ".join(v.value for v in terms.verbs),
        )
        for kind, terms in KINDS.items()
    ]
    return diagram.table(("kind", "owner", "due after", "the job waits", "what may be done"), rows)


def _presets() -> str:
    from dispatch.presets import SIMULATED
    from workflows import diagram

    rows = []
    for name, preset in SIMULATED.items():
        c = preset.contract
        proof = c.lookup.absence_is_proof_after if c.lookup else None
        rows.append(
            (
                f"`{name}`",
                c.key_location.value,
                f"{c.retention:g} s" if isinstance(c.retention, float) else c.retention,
                "yes" if c.lookup else "no",
                "never" if proof is None else f"{proof:g} s after nothing can arrive any more",
                str(c.automatic_resubmissions),
            )
        )
    head = ("preset", "key in", "key kept for", "look-up", "absence proves", "sends again by itself")
    return diagram.table(head, rows)


def _published_presets() -> str:
    from dispatch.explaining import span
    from dispatch.presets import PUBLISHED
    from workflows import diagram

    rows = [
        (
            f"[`{name}`]({preset.source})",
            preset.contract.key_location.value,
            span(preset.contract.retention)
            if isinstance(preset.contract.retention, float)
            else preset.contract.retention,
            str(preset.contract.automatic_resubmissions),
            preset.reviewed_on or "not yet",
        )
        for name, preset in PUBLISHED.items()
    ]
    return diagram.table(("preset", "key in", "key kept for", "sends again by itself", "reviewed"), rows)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    os.environ.setdefault("COUNTERFOIL_NO_DATABASE", "1")
    import django

    django.setup()
    write()
