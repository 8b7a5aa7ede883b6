"""The only place that locks rows of matching. A run is locked alone; lines and matches need no lock (`database.py`)."""

from __future__ import annotations

from statements.matching.models import MatchRun


def lock_run(run_id: int) -> MatchRun:
    """A run's row, fresh and locked, before any other row or after none."""
    return MatchRun.objects.select_for_update(no_key=True, of=("self",)).get(pk=run_id)
