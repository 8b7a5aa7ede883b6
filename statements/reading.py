"""From rows of a file to lines, by a mapping: what each cell is, and everything that is wrong with a row at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import TypeVar

from statements.dates import Dates
from statements.lines import LONGEST_TEXT, Line, Problem, Unreadable, printable
from statements.numbers import MINUS, decimals, minor_units
from statements.table import Row
from statements.terms import IDS, LABELS, Column, Terms, same_name
from web.spreadsheets import as_it_was

HEADER_WITHIN = 100
"""The header stands in the first hundred rows."""
TOO_LONG = f"is longer than {LONGEST_TEXT:,} characters: is this the right column?"
UNICODE = ("utf-8", "utf-16-le", "utf-16-be")
T = TypeVar("T")
_EXPONENT = re.compile(r"[-+]?[0-9]+(?:[.,][0-9]+)?[eE][-+]?[0-9]+")


class NoHeader(Exception):
    """The columns that the mapping names are in none of the first rows; the sentence says which are missing."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Where the columns of one file are. `first_row`: the number of its first row that can be a line."""

    places: dict[Column, int]
    texts: tuple[int, ...]
    width: int | None
    first_row: int
    names: tuple[str, ...]

    @property
    def paid(self) -> Column:
        """The first of the columns of amounts that there is."""
        return next(c for c in (Column.PAID_IN, Column.PAID_OUT) if c in self.places)

    def name_of(self, column: Column) -> str:
        """As the file names it, or by its place."""
        place = self.places.get(column)
        if place is None:
            return LABELS[column]
        return self.names[place].strip() if self.names else f"column {place + 1}"


def find_columns(rows: Iterable[Row], terms: Terms) -> Columns:
    """The header's row by the names that the mapping has, or their places without one. Raises NoHeader.

    `rows` are those from the start of the file.
    """
    if not terms.header:
        places = {column: int(place) - 1 for column, place in terms.columns.items()}
        return Columns(places, tuple(int(t) - 1 for t in terms.texts), None, 1, ())
    wanted = [*terms.columns.values(), *terms.texts]
    nearest: list[str] | None = None
    for count, row in enumerate(rows):
        if count >= HEADER_WITHIN:
            break
        names = [same_name(cell) for cell in row.cells]
        missing = [name for name in wanted if same_name(name) not in names]
        if not missing:
            return _by_name(row, names, terms)
        if nearest is None or len(missing) < len(nearest):
            nearest = missing
    missing_names = ", ".join(f"“{name}”" for name in (nearest or wanted))
    raise NoHeader(
        f"No row among the first {HEADER_WITHIN} has the columns of the mapping: {missing_names} is missing."
    )


def _by_name(row: Row, names: list[str], terms: Terms) -> Columns:
    twice = sorted({n for n in (*terms.columns.values(), *terms.texts) if names.count(same_name(n)) > 1})
    if twice:
        raise NoHeader(
            f"The header has “{twice[0]}” more than once: which is meant? Map by place instead, without a header, and "
            "name the header's first word among those that rows which are no lines begin with."
        )
    return Columns(
        {column: names.index(same_name(name)) for column, name in terms.columns.items()},
        tuple(names.index(same_name(t)) for t in terms.texts),
        len(row.cells),
        row.number + row.lines,
        tuple(row.cells),
    )


# Each look at a member of an enum costs as much as reading a date: those that every row needs are looked up once.
_BOOKED, _VALUE, _AMOUNT, _CURRENCY = Column.BOOKED, Column.VALUE, Column.AMOUNT, Column.CURRENCY
_DIRECTION, _ACCOUNT = Column.DIRECTION, Column.ACCOUNT


class Reader:
    """Reads rows of one file. `account` is the one that the statement was uploaded for."""

    def __init__(self, terms: Terms, columns: Columns, *, account: str, encoding: str) -> None:
        self._terms = terms
        self._columns = columns
        self._account = account
        self._encoding = encoding
        self._least = max((*columns.places.values(), *columns.texts)) + 1
        self._texts = [(n, column) for n, column in enumerate(_TEXTS) if column in columns.places]
        self._dates = Dates(terms.dates)
        self._left_out = tuple(w.casefold() for w in terms.left_out)
        self._in = {w.casefold() for w in terms.in_words}
        self._out = {w.casefold() for w in terms.out_words}

    def read(self, row: Row) -> Line | list[Problem] | None:
        """A line, all that is wrong, or None for what is no line: up to the header, blank, or left out by the mapping."""
        if row.number < self._columns.first_row:
            return None
        if row.problem is not None:
            return [row.problem]
        cells = [c.strip() for c in row.cells]
        first = next(filter(None, cells), "")
        if not first or (self._left_out and first.casefold().startswith(self._left_out)):
            return None
        if sentence := self._wrong_as_a_whole(row):
            return [Problem("", printable(row.text), sentence)]
        problems: list[Problem] = []
        line = self._line(_Cells(cells, self._columns, problems))
        return problems or line

    def _wrong_as_a_whole(self, row: Row) -> str:
        if "\0" in row.text:
            return "The row has a NUL in it, which no text has: mend the file."
        count, width = len(row.cells), self._columns.width
        if width is not None and count != width:
            return f"The row has {_columns(count)} where the header has {width}. Is the separator right?"
        if count < self._least:
            return f"The row has {_columns(count)} and the mapping asks for one beyond: number {self._least}."
        if self._encoding not in UNICODE and not row.text.isascii() and _is_utf_8(row.text, self._encoding):
            return (
                "These letters are UTF-8 in a file that is not: two files were put together. Mend the file."
            )
        return ""

    def _line(self, cells: _Cells) -> Line:
        """The line, where the cells have nothing wrong in the end."""
        booked_on = cells.tried(_BOOKED, self._dates.read, date.min)
        value_on = cells.tried(_VALUE, self._dates.read, date.min) if cells[_VALUE] else None
        currency = self._terms.currency or cells.tried(_CURRENCY, _currency, "")
        amount = self._amount(cells, currency) if currency else 0
        texts = ["", "", "", ""]
        for number, column in self._texts:
            texts[number] = cells.tried(column, _READ_TEXT[number], "")
        if _ACCOUNT in self._columns.places:
            cells.tried(_ACCOUNT, self._our_account, "")
        receivers_id, reference, counterparty, counterparty_account = texts
        return Line(
            booked_on, value_on, abs(amount), currency, "in" if amount >= 0 else "out", receivers_id, reference,
            cells.joined(self._columns.texts), counterparty, counterparty_account,
        )  # fmt: skip

    def _amount(self, cells: _Cells, currency: str) -> int:
        """With its sign: what came in is positive. 0 where something is wrong, which the cells then say."""

        def number(text: str) -> int:
            return minor_units(text, self._terms.numbers, currency)

        if _AMOUNT in self._columns.places:
            return cells.tried(_AMOUNT, number, 0) * self._sign(cells)
        paid = {c: cells.tried(c, number, 0) for c in PAID if cells[c]}
        if not paid:
            cells.wrong(self._columns.paid, "is empty: an amount is needed.")
        if all(paid.values()) and len(paid) == 2:
            cells.wrong(Column.PAID_OUT, "is one of two amounts in this row: one has to be empty or nought.")
        if paid.get(Column.PAID_IN, 0) < 0:
            cells.wrong(Column.PAID_IN, "has a minus in the column for what was paid in.")
        return paid.get(Column.PAID_IN, 0) - abs(paid.get(Column.PAID_OUT, 0))

    def _sign(self, cells: _Cells) -> int:
        if _DIRECTION not in self._columns.places:
            return 1 if self._terms.positive == "in" else -1
        word = cells[_DIRECTION].casefold()
        if word not in self._in and word not in self._out:
            cells.wrong(_DIRECTION, "is none of the words that the mapping has for in and out.")
        elif not MINUS.isdisjoint(cells[_AMOUNT]):
            cells.wrong(_AMOUNT, "has a minus, though another column says in or out.")
        return -1 if word in self._out else 1

    def _our_account(self, text: str) -> str:
        if not text or _same_account(text, self._account):
            return text
        lost = text.lstrip("0") == self._account.lstrip("0")
        hint = (
            " Leading noughts are lost: a spreadsheet has saved this file; upload the one that came."
            if lost
            else ""
        )
        raise Unreadable(
            f"is not {self._account or 'an account that was named'}, which this statement is of.{hint}"
        )


class _Cells:
    """The cells of one row, by what they are; what is wrong with them goes to `problems`."""

    __slots__ = ("_cells", "_columns", "_problems")

    def __init__(self, cells: list[str], columns: Columns, problems: list[Problem]) -> None:
        self._cells = cells
        self._columns = columns
        self._problems = problems

    def __getitem__(self, column: Column) -> str:
        place = self._columns.places.get(column)
        return "" if place is None else self._cells[place]

    def tried(self, column: Column, read: Callable[[str], T], otherwise: T) -> T:
        """What `read` makes of a cell; where it refuses, that is noted and `otherwise` stands in."""
        try:
            return read(self[column])
        except Unreadable as unreadable:
            self.wrong(column, str(unreadable))
            return otherwise

    def wrong(self, column: Column, sentence: str) -> None:
        """A cell cannot be read; `sentence` goes on after its text."""
        text = printable(self[column])
        self._problems.append(
            Problem(self._columns.name_of(column), text, f"“{text}” {sentence}" if text else f"It {sentence}")
        )

    def joined(self, places: tuple[int, ...]) -> str:
        """The texts of a row as one."""
        text = " ".join(" ".join([self._cells[place] for place in places]).split())
        if len(text) > LONGEST_TEXT:
            self._problems.append(Problem("", printable(text), f"The text {TOO_LONG}"))
        return text


def _text(text: str) -> str:
    if len(text) > LONGEST_TEXT:
        raise Unreadable(TOO_LONG)
    return " ".join((as_it_was(text) if text.startswith("'") else text).split())


def _id(text: str) -> str:
    """Of a name made of digits every one stays; what a spreadsheet has made of it cannot be undone."""
    if ("E" in text or "e" in text) and _EXPONENT.fullmatch(text):
        raise Unreadable(
            "looks edited in a spreadsheet, which has lost its digits: upload the file as it came."
        )
    return _text(text)


@cache
def _currency(text: str) -> str:
    decimals(text.upper())
    return text.upper()


def _columns(count: int) -> str:
    return f"{count} column{'' if count == 1 else 's'}"


def _same_account(one: str, other: str) -> bool:
    return one.replace(" ", "").casefold() == other.replace(" ", "").casefold()


def _is_utf_8(text: str, encoding: str) -> bool:
    """Whether text that was decoded by another encoding is UTF-8: two letters in place of one would be seen."""
    try:
        return not text.encode(encoding).decode("utf-8").isascii()
    except UnicodeError:
        return False


PAID = (Column.PAID_IN, Column.PAID_OUT)
_TEXTS = (Column.RECEIVERS_ID, Column.REFERENCE, Column.COUNTERPARTY, Column.COUNTERPARTY_ACCOUNT)
_READ_TEXT = [_id if column in IDS else _text for column in _TEXTS]
