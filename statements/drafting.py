"""A mapping while a person writes it: its form, filled from the last one or from the file, and the first rows read by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.http import QueryDict

from statements import keeping
from statements.forms import MappingForm, initial_of
from statements.guessing import DELIMITERS, SAMPLE, Guess, guess
from statements.lines import Line, Problem, printable
from statements.models import Mapping, Statement, StatementLine
from statements.queries import LineView, last_mapping, statement
from statements.reading import NoHeader, Reader, find_columns
from statements.table import Row
from statements.terms import MOST_COLUMNS, Terms

SHOWN = 50


@dataclass(frozen=True, slots=True)
class Shown:
    """One of the first rows as it would be read."""

    number: int
    line: LineView | None
    problems: Sequence[Problem]


@dataclass
class Draft:
    """`last`: the version that the form began with, or 0. `missing`: why no row can be read."""

    statement: Statement
    form: MappingForm
    last: int = 0
    terms: Terms | None = None
    missing: str = ""
    shown: list[Shown] = field(default_factory=list)
    left_out: int = 0

    @property
    def wrong(self) -> int:
        return sum(1 for row in self.shown if row.problems)


def draft(statement_id: int, posted: QueryDict | None, time_zone: str) -> Draft:
    """The form of a statement's mapping: as it was posted, or else from the receiver's last one or the file itself.

    Whatever it says in full is tried on the first rows.
    """
    found = statement(statement_id)
    sample = _Sample(found)
    mapping = found.mapping or last_mapping(found.receiver_id)
    guessed = guess(sample.split)
    if posted is not None:
        delimiter = posted.get("delimiter", "")
        delimiter = delimiter if delimiter in DELIMITERS else ";"
        names = sample.names(delimiter, bool(posted.get("header")))
        made = Draft(found, MappingForm(posted, names=names, evidence=guessed.evidence))
        made.terms = made.form.terms() if made.form.is_valid() else None
    elif mapping is not None and sample.fits(kept := Terms.model_validate(mapping.terms)):
        names = sample.names(kept.delimiter, kept.header)
        form = MappingForm(initial=initial_of(kept), names=names, evidence={})
        made = Draft(found, form, last=mapping.version, terms=kept)
    else:
        made = Draft(found, _proposed(guessed, sample, mapping, time_zone))
    if made.terms is not None:
        _try(made, sample)
    return made


def _proposed(guessed: Guess, sample: _Sample, mapping: Mapping | None, time_zone: str) -> MappingForm:
    """What the file itself says."""
    delimiter = str(guessed.values["delimiter"])
    values = dict(guessed.values)
    columns = values.pop("columns", {})
    assert isinstance(columns, dict)
    left_out = values.pop("left_out", [])
    assert isinstance(left_out, list)
    initial = {"time_zone": time_zone, **values, "left_out": ", ".join(left_out)}
    initial |= {f"column_{column.value}": name for column, name in columns.items()}
    evidence = dict(guessed.evidence)
    if mapping is not None:
        evidence["header"] = (
            f"Version {mapping.version}, by which this receiver's files were read, does not fit this one."
        )
    return MappingForm(
        initial=initial, names=sample.names(delimiter, bool(values["header"])), evidence=evidence
    )


class _Sample:
    """The first rows of a file, split by one separator or another."""

    def __init__(self, found: Statement) -> None:
        self._statement = found
        self._split: dict[str, list[Row]] = {}

    def split(self, delimiter: str) -> list[Row]:
        if delimiter not in self._split:
            terms = Terms.model_construct(delimiter=delimiter, encoding="windows-1252")
            self._split[delimiter] = keeping.first_rows(self._statement, terms, SAMPLE)
        return self._split[delimiter]

    def names(self, delimiter: str, header: bool) -> list[tuple[str, str]]:
        """What columns can be called: the cells of the header, or places with what stands there first."""
        rows = [row for row in self.split(delimiter) if any(c.strip() for c in row.cells)]
        if not rows:
            return []
        if header:
            names = guess(self.split).names if delimiter == guess(self.split).values["delimiter"] else ()
            cells = names or self._usual(rows).cells
            named = [(c.strip(), printable(c.strip(), 60)) for c in dict.fromkeys(cells) if c.strip()]
            return named[:MOST_COLUMNS]
        cells = self._usual(rows).cells[:MOST_COLUMNS]
        return [(str(n), f"{n}: {printable(c.strip(), 40)}") for n, c in enumerate(cells, start=1)]

    def fits(self, terms: Terms) -> bool:
        """Whether a kept mapping finds its columns here."""
        if not terms.header:
            width = len(self._usual(self.split(terms.delimiter)).cells) if self.split(terms.delimiter) else 0
            return all(int(place) <= width for place in (*terms.columns.values(), *terms.texts))
        try:
            find_columns(self.split(terms.delimiter), terms)
        except NoHeader:
            return False
        return True

    @staticmethod
    def _usual(rows: Sequence[Row]) -> Row:
        """The first row with as many columns as most have."""
        width = Counter(len(row.cells) for row in rows).most_common(1)[0][0]
        return next(row for row in rows if len(row.cells) == width)


def _try(made: Draft, sample: _Sample) -> None:
    """Read the first rows as the workers would."""
    assert made.terms is not None
    terms, found = made.terms, made.statement
    try:
        columns = find_columns(keeping.rows_from(found, terms, 0, 1), terms)
    except NoHeader as missing:
        made.missing = str(missing)
        return
    reader = Reader(terms, columns, account=found.account, encoding=keeping.encoding_of(found, terms))
    for row in keeping.rows_from(found, terms, 0, 1):
        result = reader.read(row)
        if result is None:
            made.left_out += 1
        elif isinstance(result, Line):
            line = StatementLine(row_number=row.number, **result._asdict())
            made.shown.append(Shown(row.number, LineView(line), ()))
        else:
            made.shown.append(Shown(row.number, None, result))
        if len(made.shown) == SHOWN:
            return
