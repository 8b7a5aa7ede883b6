"""What the job's page and the API say while something is undone, and afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from console.links import link
from tests.console.support import as_person
from tests.workflows.keeping import Keep, Kept
from workflows.compensation.plan import Standing
from workflows.engine.engine import Engine

pytestmark = pytest.mark.django_db(transaction=True)


def page(kept: Kept, **headers: str) -> Any:
    return as_person(kept.admin).get(link("job", kept.tenant.slug, kept.job_id), headers=headers)


def api(kept: Kept) -> Any:
    url = f"/api/v1/t/{kept.tenant.slug}/jobs/{kept.job_id}"
    return as_person(kept.admin).get(url).json()["compensation"]


def test_page_says_how_much_is_undone_and_goes_on_asking(keep: Keep, engine: Engine) -> None:
    kept = keep()
    kept.wait_until_stuck()
    kept.tell("hang-part-2")
    kept.give_up()
    kept.wait_until_took("part-2")

    shown = page(kept, HX_Request="true", HX_Target="job-live")
    html = shown.content.decode()
    assert shown.status_code == 200
    assert "data-poll" in html
    assert "Undoing what its steps made: 2 of 5 undone." in html
    assert "It has ended. What its steps made is being undone." in html
    assert "1 of 3 undone" in html
    assert api(kept) == {"standing": "under way", "undone": 2, "of": 5, "finished_at": None}

    kept.tell("go")
    kept.wait(Standing.FINISHED)
    after = page(kept, HX_Request="true", HX_Target="job-live")
    assert after.status_code == 286
    assert "data-poll" not in after.content.decode()
    told = api(kept)
    assert (told["standing"], told["undone"], told["of"]) == ("finished", 5, 5)
    assert told["finished_at"] is not None


def test_cancel_says_first_what_it_would_undo(keep: Keep, engine: Engine) -> None:
    kept = keep()
    kept.wait_until_stuck()
    asked = as_person(kept.admin).get(link("job-cancel", kept.tenant.slug, kept.job_id)).content.decode()
    assert "what was made by “Note” and “Part” and “Shelf” is undone, unless something was applied" in asked


def test_page_of_a_stopped_undoing_leads_to_its_case(keep: Keep, engine: Engine) -> None:
    kept = keep()
    kept.tell("refuse-part-2")
    kept.wait_until_stuck()
    kept.give_up()
    kept.wait(Standing.STOPPED)
    kept.wait_for_case()
    html = page(kept).content.decode()
    assert "What its steps made could not be undone: 2 of 5 undone." in html
    assert f"What JOB-{kept.job_id} made could not be undone: Part 2 of 3" in html
    assert "data-poll" not in html


def test_job_without_compensation_says_nothing_of_it(keep: Keep) -> None:
    kept = keep()
    kept.cancel()
    assert "What its steps made" not in page(kept).content.decode()
    assert api(kept) is None
