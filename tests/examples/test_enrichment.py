"""The enrichment's own decisions, and its questions to the provider and the bureau as real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.utils import timezone
from pydantic import ValidationError

from examples import enrichment
from examples.enrichment import Enriched, Entry, Vendor, VendorList
from examples.management import vendor_list
from examples.simulators.bureau.companies import register_number
from examples.simulators.client import BureauControl, ProviderControl, start_bureau, start_provider
from tests.examples.test_vendor_onboarding import a_ctx
from workflows.authoring import Invalid, Permanent, ProposalDraft
from workflows.engine.outcomes import is_retryable, retry_after

HEADER = "vendor_id,name,city,industry,rating\n"
TARN = Vendor(vendor_id="V-41001", name="TARN FREIGHT bv", city="rotterdam", rating="C")


def a_list(*rows: str, header: str = HEADER) -> VendorList:
    return VendorList(reference="ENR-1", records=header + "\n".join(rows))


def problems_of(upload: VendorList) -> list[str]:
    try:
        enrichment.validate(a_ctx(), upload)
    except Invalid as invalid:
        return [p.message if p.field == "records" else p.field for p in invalid.problems]
    return []


# --- the list ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "upload",
    [
        a_list("V-41001,Tarn Freight bv,rotterdam,,"),
        a_list("V-41001,Tarn Freight bv,rotterdam,,", header="\ufeff" + HEADER),
        a_list('V-41001,"Tarn, Freight\r\nbv",rotterdam,Trading,B', "", "V-41002,Brack,delft,,"),
        VendorList(reference="ENR-1", records=HEADER.replace("\n", "\r\n") + "V-41001,Tarn,delft,,\r\n"),
        VendorList(reference="ENR-1", records=vendor_list.vendor_list(500)),
    ],
    ids=["plain", "byte order mark", "quoted", "Windows", "as many as a set may have"],
)
def test_list_of_vendors_is_taken(upload: VendorList) -> None:
    assert problems_of(upload) == []
    vendors = enrichment.read_list(a_ctx(), upload).vendors
    assert vendors[0].vendor_id == "V-41001"
    assert len({v.vendor_id for v in vendors}) == len(vendors)


@pytest.mark.parametrize(
    ("upload", "told"),
    [
        (a_list("x"), ["line 2 has 1 columns instead of 5"]),
        (a_list(), ["has 0 vendors; a set has 1 to 500 of them, so divide a longer list"]),
        (
            a_list("V-41001,Tarn,delft,,", header="name,vendor_id,city,industry,rating\n"),
            ["the first line has to be: vendor_id,name,city,industry,rating"],
        ),
        (a_list("V-41001;Tarn;delft;;"), ["line 2 has 1 columns instead of 5"]),
        (a_list('V-41001,"Tarn,delft,,'), ["is not CSV that can be read: unexpected end of data"]),
        (
            a_list("V-41001,Tarn,delft,,", "V-41002,Brack,delft,,", "V-41001,Tarn,delft,,"),
            ["line 4: V-41001 stands on line 2 already"],
        ),
        (
            a_list("41001,Tarn,delft,,", ",,delft,,"),
            [
                "line 2: 41001 is not a vendor's number: write V- and five digits",
                "line 3: nothing is not a vendor's number: write V- and five digits",
                "line 3: the name is missing",
            ],
        ),
        (a_list(f"V-41001,{'x' * 201},delft,,"), ["line 2: a value is longer than 200 characters"]),
        (
            VendorList(reference="ENR-1", records="\n\n"),
            ["the first line has to be: vendor_id,name,city,industry,rating"],
        ),
    ],
)
def test_what_is_wrong_with_a_list_is_said_line_by_line(upload: VendorList, told: list[str]) -> None:
    assert problems_of(upload) == told


def test_longer_list_is_refused_before_anything_is_asked() -> None:
    rows = [f"V-{n:05d},Tarn,delft,," for n in range(1, 502)]

    assert problems_of(a_list(*rows)) == [
        "has 501 vendors; a set has 1 to 500 of them, so divide a longer list"
    ]


def test_only_the_first_problems_of_a_hopeless_list_are_told() -> None:
    assert len(problems_of(a_list(*["x,,,,"] * 40))) == enrichment.TOLD_PROBLEMS


# --- the questions ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def simulators(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder: Path = tmp_path_factory.mktemp("simulators")
    with (
        start_provider(database=folder / "provider.sqlite3") as provider,
        start_bureau(database=folder / "bureau.sqlite3") as bureau,
    ):
        yield provider.base_url, bureau.base_url


@pytest.fixture
def bureau(simulators: tuple[str, str], settings: Any) -> BureauControl:
    settings.COUNTERFOIL_PROVIDER_URL, settings.COUNTERFOIL_BUREAU_URL = simulators
    control = BureauControl(simulators[1])
    control.clear_faults()
    return control


@pytest.fixture
def provider(simulators: tuple[str, str], bureau: BureauControl) -> ProviderControl:
    control = ProviderControl(simulators[0])
    control.clear_script()
    return control


def enrich(vendor: Vendor) -> Enriched:
    entry = enrichment.read_entry(a_ctx(), vendor)
    found: Enriched = enrichment.rate(a_ctx(), enrichment.look_up(a_ctx(), entry))
    return found


@pytest.mark.processes
def test_vendor_is_completed_by_the_model_the_register_and_the_ratings(provider: ProviderControl) -> None:
    ctx = a_ctx()

    entry = enrichment.read_entry(ctx, TARN)
    enriched = enrich(TARN)

    assert (entry.name, entry.country, entry.industry) == ("Tarn Freight", "NL", "Road haulage")
    assert (ctx.usage.route, ctx.usage.tokens_in) == ("atlas-small", 210)
    assert (enriched.name, enriched.number) == ("Tarn Freight B.V.", register_number("NL", "Tarn Freight"))
    assert enriched.rating in ("A", "B", "C", "D")
    assert enriched.rated_on == "2026-03-01"


@pytest.mark.processes
def test_vendor_that_is_in_no_register_is_not_rated_and_not_an_error(bureau: BureauControl) -> None:
    before = len(bureau.requests(path="/credit/"))

    enriched = enrich(Vendor(vendor_id="V-41009", name="UNLISTED TIMBER bv", city="delft"))

    assert (enriched.number, enriched.rating) == ("", "")
    assert len(bureau.requests(path="/credit/")) == before


@pytest.mark.processes
def test_vendor_whose_country_nobody_can_tell_is_not_looked_up(bureau: BureauControl) -> None:
    before = len(bureau.requests())

    enriched = enrich(Vendor(vendor_id="V-41010", name="TARN FREIGHT bv", city="atlantis"))

    assert (enriched.name, enriched.number) == ("Tarn Freight", "")
    assert len(bureau.requests()) == before


@pytest.mark.processes
@pytest.mark.parametrize(
    ("fault", "again", "seconds"),
    [
        ({"kind": "status_429", "retry_after": "7"}, True, 7.0),
        ({"kind": "status_429", "retry_after": "soon"}, True, None),
        ({"kind": "status_503"}, True, None),
        ({"kind": "drop_after_commit"}, True, None),
        ({"kind": "malformed"}, True, None),
        ({"kind": "html_200"}, True, None),
    ],
)
def test_refused_question_is_left_to_the_engine_with_the_time_that_was_asked_for(
    bureau: BureauControl, fault: dict[str, Any], again: bool, seconds: float | None
) -> None:
    entry = Entry(
        vendor_id=TARN.vendor_id, vendor=TARN, name="Tarn Freight", country="NL", industry="Road haulage"
    )
    bureau.set_fault(fault.pop("kind"), method="GET", **fault)

    with pytest.raises((httpx.HTTPError, ValidationError)) as refused:
        enrichment.look_up(a_ctx(), entry)

    assert is_retryable(refused.value, enrichment.PATIENT) is again
    assert retry_after(refused.value, timezone.now()) == seconds
    assert enrichment.look_up(a_ctx(), entry).number == register_number("NL", "Tarn Freight")


@pytest.mark.processes
def test_page_that_stands_in_the_way_is_not_taken_for_an_absent_company(
    bureau: BureauControl, settings: Any
) -> None:
    """A 404 that is not the register's own, as from a proxy or a wrong address."""
    settings.COUNTERFOIL_BUREAU_URL = f"{settings.COUNTERFOIL_BUREAU_URL}/v0"
    entry = Entry(vendor_id=TARN.vendor_id, vendor=TARN, name="Tarn Freight", country="NL", industry="x")

    with pytest.raises(httpx.HTTPStatusError) as refused:
        enrichment.look_up(a_ctx(), entry)

    assert is_retryable(refused.value, enrichment.PATIENT) is False


@pytest.mark.processes
@pytest.mark.parametrize(
    "answer",
    [
        '{"name": "Tarn", "country": "Netherlands", "industry": "x"}',
        '{"name": "Tarn"}',
        '{"name": "Tarn", "cou',
    ],
)
def test_answer_of_the_model_in_another_shape_is_not_kept(provider: ProviderControl, answer: str) -> None:
    provider.set_script({"match": {"task": "read-vendor"}, "answer": answer, "times": 1})

    with pytest.raises(ValidationError):
        enrichment.read_entry(a_ctx(), TARN)

    assert enrichment.read_entry(a_ctx(), TARN).country == "NL"


# --- the proposal -----------------------------------------------------------------------------------------------------


def an_enriched(vendor: Vendor = TARN, **changes: Any) -> Enriched:
    found = {"name": "Tarn Freight B.V.", "industry": "Road haulage", "number": "NL-1", "rating": "B"}
    return Enriched(
        vendor_id=vendor.vendor_id, vendor=vendor, **{**found, "rated_on": "2026-03-01", **changes}
    )


def proposed(*enriched: Enriched) -> ProposalDraft:
    draft: ProposalDraft = enrichment.propose(a_ctx(), a_list("V-41001,Tarn,delft,,"), list(enriched))
    return draft


def test_each_vendor_that_changes_is_one_write_that_waits_for_no_other() -> None:
    brack = Vendor(vendor_id="V-41002", name="Brack", city="delft")

    draft = proposed(an_enriched(), an_enriched(brack, number="NL-2"))

    assert [(o.record, o.independent, o.receiver) for o in draft.operations] == [
        ("V-41001", True, "astrel-erp-keyed"),
        ("V-41002", True, "astrel-erp-keyed"),
    ]
    first = draft.operations[0]
    assert first.body == {
        "name": "Tarn Freight B.V.",
        "register_number": "NL-1",
        "industry": "Road haulage",
        "credit_rating": "B",
    }
    assert [(c.field, c.current, c.by_model) for c in first.changes] == [
        ("name", "TARN FREIGHT bv", False),
        ("register_number", None, False),
        ("industry", None, True),
        ("credit_rating", "C", False),
    ]
    assert draft.title == "Enrich 2 vendor records"


def test_value_that_stays_is_not_written() -> None:
    (operation,) = proposed(
        an_enriched(TARN.model_copy(update={"industry": "Road haulage", "rating": "B"}))
    ).operations

    assert sorted(operation.body) == ["name", "register_number"]


def test_vendors_that_are_left_out_are_named() -> None:
    unknown = [
        an_enriched(TARN.model_copy(update={"vendor_id": f"V-4200{n}"}), number="", rating="")
        for n in range(7)
    ]

    draft = proposed(an_enriched(), *unknown)

    assert len(draft.operations) == 1
    assert draft.summary == (
        "Of 8 vendors, 1 change: name of 1, register number of 1, industry of 1, credit rating of 1. Not in the"
        " register, so left as they are: V-42000, V-42001, V-42002, V-42003, V-42004 and 2 more."
    )


def test_list_of_which_nothing_would_change_is_not_proposed() -> None:
    with pytest.raises(Permanent, match="No vendor of ENR-1 would change"):
        proposed(an_enriched(number=""))


# --- the made-up vendors ----------------------------------------------------------------------------------------------


def test_made_up_vendors_are_all_different() -> None:
    names = {(vendor_list.country(n), vendor_list.plain_name(n)) for n in range(1, vendor_list.MOST + 1)}

    assert len(names) == vendor_list.MOST == 500
    with pytest.raises(ValueError, match="1 to 500"):
        vendor_list.vendor_list(501)
