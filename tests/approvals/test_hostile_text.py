"""Text that means harm, in every place that a stranger or a model can write to, on the page, over the API and as a file."""

from __future__ import annotations

import html
import json
import re

import pytest
from django.test import Client

from access.models import Tenant
from approvals.models import Proposal
from tests.approvals.pages import HTMX, as_person, at, decide, text
from tests.approvals.world import World, draft, operation
from web.hidden import is_hidden

pytestmark = pytest.mark.django_db(transaction=True)

SCRIPT = (
    "</textarea></blockquote><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7|add:7 }}{% now 'Y' %}"
)
BIDI = "pay \u202e0001\u202c to \u2067ACME\u2069"
EMOJI = "👨‍👩‍👧‍👦 🏳️‍🌈 1️⃣"
LONG = "All work and no play. " * 4700
HARM = f"{SCRIPT} {BIDI} {EMOJI} P\u0430ypal"


def hostile(world: World) -> Proposal:
    change = {
        "field": "payee", "label": HARM, "current": LONG, "proposed": LONG + HARM, "source": HARM,
        "source_version": HARM, "by_model": True,
    }  # fmt: skip
    one = operation(title=HARM[:300], action=HARM, changes=[change], body={HARM: LONG})
    job = world.job(title=HARM[:300], reference=HARM[:200])
    world.freeze(job, draft(
        title=HARM[:300], summary=HARM, model_text=LONG[:19_000] + HARM, model_route=HARM, amount_label=HARM[:300],
        recipient=HARM[:300], sources=[{"name": HARM, "version": HARM}], operations=[one],
    ))  # fmt: skip
    return world.proposal(job)


def harmless(page: str) -> None:
    """No markup of theirs, and nothing that nobody sees but where an attribute carries a value to be copied."""
    assert "<img" not in page
    assert not re.search(r"<script(?! (?:src|type)=)", page)
    assert "{{ 7|add:7 }}" in html.unescape(page)
    seen = html.unescape(re.sub(r"<[^>]*>", "", page))
    assert {c for c in seen if is_hidden(c)} <= set("\u00a0\u202f\u200d\ufe0f")


def test_page_fragment_and_dialogs_show_it_as_text_and_name_what_cannot_be_seen(world: World) -> None:
    proposal, client = hostile(world), as_person(world.manager)
    for address, headers in ((at(world, "approval", proposal), {}), (at(world, "approval", proposal), HTMX)):
        page = text(client.get(address, headers=headers))
        harmless(page)
        assert page.count("RIGHT-TO-LEFT OVERRIDE") > 10
        assert "\u0430 in “P\u0430ypal” is Cyrillic (U+0430) and looks like a" in page
        assert EMOJI in page
        assert page.count(LONG[:-1]) >= 3
        assert "characters, open to read all</b>" in page
        assert "free text, not checked" in page
        assert "model text, not checked" in page
    harmless(text(client.get(at(world, "approvals"))))
    refused = decide(world, proposal, world.manager, "reject", htmx=True, reason=HARM, digest="1" * 64)
    assert refused.status_code == 409
    assert "<img" not in text(refused)


def test_the_name_of_an_organisation_is_no_exception(world: World) -> None:
    Tenant.objects.filter(pk=world.tenant.pk).update(name=HARM[:200] + BIDI)
    harmless(text(as_person(world.manager).get(at(world, "approval-mine"))))
    harmless(text(as_person(world.manager).get(f"/t/nowhere/{HARM[:200]}{BIDI}/")))


def test_nothing_that_decides_is_cut_by_the_page(world: World) -> None:
    page = text(as_person(world.manager).get(at(world, "approval", hostile(world))))
    slip = page[page.index('class="slip"') :]
    assert 'class="cut' not in slip
    assert "truncated" not in slip
    assert html.unescape(re.sub(r"<[^>]*>", "", slip)).count("All work and no play.") >= 3 * 4700


def test_api_and_file_carry_the_very_characters_and_no_page(world: World) -> None:
    proposal = hostile(world)
    client: Client = as_person(world.manager)
    answer = client.get(f"/api/v1/t/{world.tenant.slug}/jobs/{proposal.job_id}")
    assert answer.headers["content-type"].startswith("application/json")
    assert HARM[:200] in json.dumps(json.loads(answer.content), ensure_ascii=False).replace('\\"', '"')
    links = re.search(r'href="([^"]+)" download', text(client.get(at(world, "approval", proposal))))
    assert links is not None
    signed = client.get(html.unescape(links[1]))
    assert signed.headers["x-content-type-options"] == "nosniff"
    assert "html" not in signed.headers["content-type"]
    assert b"".join(signed) == proposal.document.encode()  # type: ignore[arg-type]


def test_free_text_of_a_submitter_stands_apart_from_who_was_signed_in(world: World) -> None:
    claim = "Requested by the finance director - already cleared"
    job = world.job(title=claim, reference="approved-by-cfo", source="API")
    world.freeze(job, draft())
    page = text(as_person(world.manager).get(at(world, "approval", world.proposal(job))))
    told = page[page.index('id="told-t"') : page.index('id="said-t"')]
    stub = page[page.index('class="stub"') :]
    assert "free text, not checked" in told
    assert claim in told
    assert "approved-by-cfo" in told
    assert claim not in stub
    assert f"{world.submitter.username}, signed in, through the API" in stub
