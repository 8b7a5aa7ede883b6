"""The digest is the same in another language, on documents that nobody thought of, before and after a restart."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from access.tenancy import reading
from approvals import canonical
from approvals.document import _read_again, disagreements, read
from approvals.models import Proposal, ProposedOperation
from tests.approvals.world import World, draft, operation

SCRIPT = Path(__file__).parent / "canonical.mjs"
TEXT = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


class Node:
    """The script, kept running: a line in, a line out."""

    def __init__(self) -> None:
        found = shutil.which("node")
        assert found, "node is needed to compare the canonical form with a second implementation"
        self._process = subprocess.Popen(
            [found, str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def __call__(self, text: str) -> tuple[str, str]:
        """The digest and the canonical text that it makes of a JSON text."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(base64.b64encode(text.encode()).decode() + "\n")
        self._process.stdin.flush()
        digest, _, encoded = self._process.stdout.readline().strip().partition(" ")
        return digest, base64.b64decode(encoded).decode()

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(10) == 0


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    process = Node()
    yield process
    process.stop()


@settings(max_examples=150, deadline=None)
@given(VALUES)
@example({chr(code): [chr(code), code] for code in range(1, 128)})
def test_another_language_writes_the_same_bytes_whatever_order_and_spelling_they_came_in(
    node: Node, value: Any
) -> None:
    ours = canonical.write(value)
    expected = (canonical.sha256(ours), ours)
    assert node(ours) == expected
    assert node(json.dumps(_turned(value), ensure_ascii=True, indent=3)) == expected
    assert canonical.parse(ours) == value


@pytest.mark.django_db(transaction=True)
def test_a_proposal_that_was_frozen_is_verified_alike_after_a_restart_and_by_another_language(
    world: World, node: Node
) -> None:
    @settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.dictionaries(TEXT, VALUES, max_size=4), st.text(alphabet="aé漢\u202e🙂", min_size=1, max_size=20)
    )
    def holds(body: dict[str, Any], title: str) -> None:
        change = {"field": "f", "label": title, "current": None, "proposed": title}
        proposal = world.proposed(draft(title=title, operations=[operation(body=body, changes=[change])]))
        connection.close()
        _read_again.cache_clear()
        with reading(world.tenant.pk):
            stored = Proposal.objects.select_related("policy").get(pk=proposal.pk)
            operations = list(ProposedOperation.objects.filter(proposal=stored).order_by("ordinal"))
            assert disagreements(stored, operations) == []
        assert node(stored.document) == (stored.digest, stored.document)
        value = read(stored.document)
        assert (value["title"], value["operations"][0]["changes"][0]["proposed"]) == (title, title)
        assert json.loads(bytes(operations[0].body)) == body

    holds()


def _turned(value: Any) -> Any:
    """The same value with every object's keys in another order."""
    if isinstance(value, dict):
        return {key: _turned(value[key]) for key in reversed(list(value))}
    return [_turned(inner) for inner in value] if isinstance(value, list) else value
