"""The state machine as text, for the documentation: a Mermaid diagram and a table, rendered from `states.py` alone.

`tests/docs` compares what the documents hold with what is rendered here, so that neither can be changed alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from workflows.states import ENDED, TRANSITIONS

Edge = tuple[str, str, str]
"""From (empty: the beginning), to, and what stands on the arrow."""


def job_diagram() -> str:
    """Every transition of a job, with the kinds of actor that may make it."""
    edges = [(str(t.source), t.target.value, ", ".join(t.actors)) for t in TRANSITIONS]
    return mermaid(edges, ended=[s.value for s in ENDED])


def job_table() -> str:
    """The same as a Markdown table, with the evidence that the journal row carries."""
    rows = [(str(t.source) or "–", t.target.value, ", ".join(t.actors), t.evidence) for t in TRANSITIONS]
    return table(("from", "to", "who", "evidence"), rows)


def mermaid(edges: Iterable[Edge], *, ended: Iterable[str] = ()) -> str:
    """A state diagram; `ended` states lead to the end mark."""
    lines = ["stateDiagram-v2"]
    lines += [f"    {source or '[*]'} --> {target}{_label(label)}" for source, target, label in edges]
    lines += [f"    {state} --> [*]" for state in ended]
    return "\n".join(lines)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _label(text: str) -> str:
    return f": {text}" if text else ""
