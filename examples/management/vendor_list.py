"""Made-up vendors for the enrichment: typed as clerks type them, no two alike, the same ones every time."""

from __future__ import annotations

import csv
import io

from examples.enrichment import COLUMNS

FAMILIES = (
    "Tarn", "Brack", "Ostler", "Fennmark", "Calder", "Wexley", "Thorne", "Hallam", "Ruswick", "Penrose",
    "Marlow", "Stavely", "Kestrel", "Ashdown", "Birkett", "Corran", "Draycott", "Elswick", "Farrow", "Gorse",
    "Hendry", "Inver", "Jarrow", "Kielder", "Lorton",
)  # fmt: skip
TRADES = (
    "Freight", "Castings", "Orchards", "Timber", "Packaging", "Bearings", "Dairies", "Glass", "Textiles", "Marine",
    "Coatings", "Instruments", "Storage", "Ceramics", "Foods", "Cables", "Printing", "Tools", "Batteries", "Pumps",
)  # fmt: skip
CITIES = (
    ("rotterdam", "bv", "NL"), ("gdynia", "sp z o.o.", "PL"), ("bilbao", "sl", "ES"), ("aarhus", "aps", "DK"),
    ("trieste", "srl", "IT"), ("delft", "bv", "NL"), ("poznan", "sp z o.o.", "PL"),
)  # fmt: skip
MOST = len(FAMILIES) * len(TRADES)
FIRST_NUMBER = 41001


def vendor_list(count: int, *, unlisted: tuple[int, ...] = ()) -> str:
    """A CSV list of `count` vendors, at most 500; those at the places `unlisted` (from 1) are in no register."""
    if not 1 <= count <= MOST:
        raise ValueError(f"There are 1 to {MOST} made-up vendors, not {count}.")
    written = io.StringIO()
    rows = csv.writer(written, lineterminator="\n")
    rows.writerow(COLUMNS)
    for place in range(1, count + 1):
        rows.writerow(_vendor(place, listed=place not in unlisted))
    return written.getvalue()


def vendor_id(place: int) -> str:
    """The number of the vendor at a place of the list, from 1."""
    return f"V-{FIRST_NUMBER + place - 1}"


def plain_name(place: int, *, listed: bool = True) -> str:
    """What the vendor at a place is called, without its legal form."""
    block, family = divmod(place - 1, len(FAMILIES))
    trade = TRADES[(block + family) % len(TRADES)]
    return f"{FAMILIES[family] if listed else 'Unlisted'} {trade}"


def country(place: int) -> str:
    """Where that vendor sits."""
    return CITIES[place % len(CITIES)][2]


def _vendor(place: int, *, listed: bool) -> tuple[str, ...]:
    city, form, _ = CITIES[place % len(CITIES)]
    name = f"{plain_name(place, listed=listed)} {form}"
    industry = "Trading" if place % 4 == 0 else ""
    rating = "C" if place % 3 == 0 else ""
    return vendor_id(place), name.upper() if place % 2 else name, city, industry, rating
