"""How the committer shares its commits out."""

from __future__ import annotations

import pytest

from workflows.engine.committer import worth_waiting


@pytest.mark.parametrize(
    ("took", "waits"), [(0.0, 0.002), (0.001, 0.002), (0.1, 0.015), (60.0, 0.025), (-3.0, 0.002)]
)
def test_a_result_waits_for_others_in_proportion_to_what_it_took_and_never_long(
    took: float, waits: float
) -> None:
    assert worth_waiting(took) == pytest.approx(waits)
