"""The list of jobs: pages by keyset, filters, the search; and the journal that leaves the house."""

from __future__ import annotations

import json
import re
from datetime import datetime

import pytest
from django.test import Client

from access.models import Person, Tenant
from console.links import link
from console.queries import jobs as queries
from tests.console.support import as_person, make_job, make_operation, make_proposal, make_receiver, move
from workflows.journal import entry_hash
from workflows.models import JournalEntry

pytestmark = pytest.mark.django_db(transaction=True)


def shown(client: Client, url: str) -> list[int]:
    html = client.get(url).content.decode()
    return [int(n) for n in re.findall(r'/jobs/(\d+)/" data-row', html)]


def go(client: Client, url: str, rel: str) -> str:
    found = re.search(rf'href="(\?[^"]+)" rel="{rel}"', client.get(url).content.decode())
    assert found is not None, rel
    return url.partition("?")[0] + found.group(1).replace("&amp;", "&")


def test_pages_follow_each_other_without_a_gap_and_lead_back(
    tenant: Tenant, submitter: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "PAGE", 2)
    ids = [make_job(tenant, submitter) for _ in range(5)][::-1]
    client, first = as_person(submitter), link("jobs", tenant.slug)
    second = go(client, first, "next")
    third = go(client, second, "next")
    assert [shown(client, url) for url in (first, second, third)] == [ids[:2], ids[2:4], ids[4:]]
    back = go(client, third, "prev")
    assert shown(client, back) == ids[2:4]
    assert shown(client, go(client, back, "prev")) == ids[:2]


@pytest.mark.parametrize("reads_as", ["", "en-US"])
def test_the_times_of_where_jobs_stand_carry_no_mark_of_a_hidden_character(
    tenant: Tenant, submitter: Person, reads_as: str
) -> None:
    move(tenant, make_job(tenant, submitter), "FAILED")
    client = as_person(submitter)
    client.cookies["reads_as"] = reads_as
    html = client.get(link("jobs", tenant.slug)).content.decode()
    assert re.search(r"ended \d+:\d\d" + (" [AP]M" if reads_as else ""), html)
    assert "U+" not in html


def test_filters_and_the_search_find_what_they_name(tenant: Tenant, submitter: Person) -> None:
    chairs = make_job(tenant, submitter, title="Twelve chairs", reference="PO-Z7")
    lamps = make_job(tenant, submitter, title="Nine lamps")
    move(tenant, lamps, "VALIDATED")
    operation = make_operation(tenant, make_proposal(tenant, lamps, submitter), make_receiver(tenant))
    client, url = as_person(submitter), link("jobs", tenant.slug)
    found = {
        "?state=VALIDATED": [lamps],
        "?state=held": [],
        "?state=NONSENSE": [lamps, chairs],
        "?workflow=test-orders": [lamps, chairs],
        "?workflow=other": [],
        "?q=chair": [chairs],
        "?q=po-z7": [chairs],
        f"?q=JOB-{chairs}": [chairs],
        f"?q={lamps}": [lamps],
        f"?q={operation.operation_key}": [lamps],
        "?q=%00": [lamps, chairs],
        "?before=99999999999999999999": [lamps, chairs],
        "?q=%25": [],
    }
    assert {query: shown(client, url + query) for query in found} == found


def test_an_exported_journal_verifies_outside_of_the_database(tenant: Tenant, submitter: Person) -> None:
    job_id = make_job(tenant, submitter)
    move(tenant, job_id, "VALIDATED", "FAILED")
    body = json.loads(as_person(submitter).get(link("job-journal-export", tenant.slug, job_id)).content)
    before = b""
    for row in body["entries"]:
        row["at"] = datetime.fromisoformat(row["at"])
        row["previous"], row["hash"] = bytes.fromhex(row["previous"]), bytes.fromhex(row["hash"])
        assert row["previous"] == before
        before = entry_hash(JournalEntry(**row))
        assert before == row["hash"]
    assert (len(body["entries"]), body["head"]) == (body["version"], before.hex())
