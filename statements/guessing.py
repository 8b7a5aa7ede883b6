"""What a file itself says of how it is to be read: proposals for a mapping that is not written yet, each with its evidence.

A person looks at them and writes the mapping; nothing is read by a guess. What two formats fit is left open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from statements.dates import fitting_formats
from statements.numbers import fitting_numbers
from statements.table import Row
from statements.terms import Column, same_name

DELIMITERS = {";": "semicolon", ",": "comma", "\t": "tab", "|": "bar"}
SAMPLE = 500
"""Rows that are looked at."""
TOTALS = (
    "total",
    "sum",
    "balance",
    "summe",
    "saldo",
    "gesamt",
    "endsaldo",
    "opening balance",
    "closing balance",
)
KNOWN: dict[Column, tuple[str, ...]] = {
    Column.BOOKED: ("date", "booking date", "booked on", "transaction date", "buchungstag", "buchungsdatum", "datum",
                    "completed date", "posting date", "date comptable"),
    Column.VALUE: ("value date", "valuta", "wertstellung", "valutadatum", "date de valeur"),
    Column.AMOUNT: ("amount", "betrag", "umsatz", "montant", "bedrag", "importe", "net", "gross"),
    Column.PAID_IN: ("paid in", "credit", "money in", "haben", "gutschrift", "crédit", "deposits"),
    Column.PAID_OUT: ("paid out", "debit", "money out", "soll", "lastschrift", "débit", "withdrawals"),
    Column.CURRENCY: ("currency", "währung", "devise", "valuta (währung)"),
    Column.RECEIVERS_ID: ("id", "transaction id", "bank reference", "entry reference", "umsatz-id"),
    Column.REFERENCE: ("reference", "referenz", "ref", "end-to-end reference", "end-to-end-referenz", "kundenreferenz",
                       "référence", "payment reference"),
    Column.COUNTERPARTY: ("payee", "counterparty", "beneficiary", "name", "empfänger", "auftraggeber/empfänger",
                          "begünstigter/zahlungspflichtiger", "bénéficiaire"),
    Column.COUNTERPARTY_ACCOUNT: ("counterparty account", "iban", "kontonummer/iban", "beneficiary account"),
    Column.ACCOUNT: ("account", "our account", "auftragskonto", "konto"),
}  # fmt: skip
KNOWN_TEXTS = (
    "purpose",
    "description",
    "text",
    "details",
    "memo",
    "verwendungszweck",
    "buchungstext",
    "libellé",
    "narrative",
)


@dataclass
class Guess:
    """Values for the form of a mapping, and for each what showed it or why it is left open."""

    values: dict[str, object] = field(default_factory=dict)
    evidence: dict[str, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    """The header that was found, or empty."""


def guess(split: Callable[[str], Sequence[Row]]) -> Guess:
    """What a file says. `split` gives its first rows under a separator."""
    found = Guess()
    delimiter = _delimiter(split, found)
    rows = [row for row in split(delimiter) if any(c.strip() for c in row.cells)]
    width = _usual_width(rows)[0]
    regular = [row for row in rows if len(row.cells) == width]
    header = _header(regular)
    found.values["header"] = header is not None
    if header is None:
        found.evidence["header"] = "None of the first rows consists of names."
        return found
    found.names = tuple(c.strip() for c in header.cells)
    found.evidence["header"] = f"Row {header.number} consists of names."
    body = [row for row in regular if row.number > header.number]
    _totals(body, found)
    _columns(found)
    _formats(body, found)
    return found


def _delimiter(split: Callable[[str], Sequence[Row]], found: Guess) -> str:
    usual = {d: _usual_width(split(d)) for d in DELIMITERS}
    best = max(usual, key=lambda d: (usual[d][0] > 1, usual[d][1], usual[d][0]))
    width, rows = usual[best]
    found.values["delimiter"] = best
    found.evidence["delimiter"] = (
        f"The {DELIMITERS[best]} gives {rows} of the first rows {width} columns each."
        if width > 1
        else "Nothing separates columns here; is this a table?"
    )
    return best


def _usual_width(rows: Sequence[Row]) -> tuple[int, int]:
    """The number of columns that most rows have, and how many rows those are."""
    widths = Counter(len(row.cells) for row in rows if row.cells)
    return widths.most_common(1)[0] if widths else (0, 0)


def _header(rows: Sequence[Row]) -> Row | None:
    known = {name for names in KNOWN.values() for name in names} | set(KNOWN_TEXTS)
    for row in rows[:100]:
        names = [same_name(c) for c in row.cells]
        if len(known & set(names)) >= min(2, len(names)):
            return row
    for row in rows[:1]:
        if all(c.strip() and not any(x.isdigit() for x in c) for c in row.cells):
            return row
    return None


def _columns(found: Guess) -> None:
    folded = [same_name(n) for n in found.names]
    taken: dict[Column, str] = {}
    for column, names in KNOWN.items():
        place = next((folded.index(n) for n in names if n in folded), None)
        if place is not None and found.names[place] not in taken.values():
            taken[column] = found.names[place]
    if Column.AMOUNT in taken:
        taken.pop(Column.PAID_IN, None)
        taken.pop(Column.PAID_OUT, None)
    found.values["columns"] = taken
    found.values["texts"] = [n for n, f in zip(found.names, folded, strict=True) if f in KNOWN_TEXTS]


def _totals(body: list[Row], found: Guess) -> None:
    """Rows at the end that begin with a word for a total, and are no lines."""
    words = []
    for row in body[-5:]:
        first = next((c.strip() for c in row.cells if c.strip()), "")
        if first.casefold().rstrip(":").startswith(TOTALS):
            words.append(first)
            body.remove(row)
    if words:
        found.values["left_out"] = list(dict.fromkeys(words))
        found.evidence["left_out"] = f"A row near the end begins with “{words[0]}”."


def _formats(body: Sequence[Row], found: Guess) -> None:
    columns = found.values["columns"]
    assert isinstance(columns, dict)

    def cells(*wanted: Column) -> list[str]:
        places = [found.names.index(columns[c]) for c in wanted if c in columns]
        return [row.cells[p].strip() for row in body[:SAMPLE] for p in places if row.cells[p].strip()]

    if dates := cells(Column.BOOKED):
        fitting = fitting_formats(dates)
        if len(fitting) == 1:
            found.values["dates"] = fitting[0].value
        found.evidence["dates"] = _told([f.value for f in fitting], len(dates), "date")
    if numbers := cells(Column.AMOUNT, Column.PAID_IN, Column.PAID_OUT):
        fits = fitting_numbers(numbers)
        if len({f.point for f in fits}) == 1:
            found.values["numbers"] = fits[0].value
            fits = fits[:1]
        found.evidence["numbers"] = _told([f.value for f in fits], len(numbers), "amount")


def _told(fitting: list[str], count: int, what: str) -> str:
    if not fitting:
        return f"No format fits every {what} among the first rows."
    if len(fitting) == 1:
        return f"{fitting[0]} is what all of the first {count} {what}s fit."
    return f"{' and '.join(fitting)} all fit: the file does not say which it is, so you have to."
