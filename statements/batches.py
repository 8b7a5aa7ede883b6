"""What some rows of a file came to, before any of it is written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from statements.lines import Line, Problem, printable
from statements.numbers import in_units


@dataclass
class Batch:
    """`lines` with the number and the text of their rows. `rows`: lines of the file that were read; `end`: the byte after."""

    lines: list[tuple[int, Line, str]] = field(default_factory=list)
    problems: list[tuple[int, Problem]] = field(default_factory=list)
    wrong_rows: int = 0
    left_out: int = 0
    rows: int = 0
    end: int = 0
    opening: int | None = None
    closing: int | None = None

    def add(self, number: int, result: Line | list[Problem] | None, text: str) -> None:
        """What one row came to."""
        if result is None:
            self.left_out += 1
        elif isinstance(result, Line):
            self.lines.append((number, result, raw_of(text)))
        else:
            self.wrong_rows += 1
            self.problems += [(number, problem) for problem in result]

    def refuse(self, sentence: str, was_read: str = "") -> None:
        """The file as a whole is wrong."""
        self.add(0, [Problem("", printable(was_read), sentence)], "")


def raw_of(text: str) -> str:
    """A row's text as the database can hold it."""
    return printable(text, 2000) if "\0" in text else text


def account_faults(said: str, account: str) -> list[str]:
    """Why a file is not of the account that it was uploaded for."""
    if _bare(said) == _bare(account) or not said or not account:
        return []
    return [f"It is of account {said}, and was uploaded for {account}."]


def balance_faults(
    opening: int | None, closing: int | None, lines: Iterable[Line], currency: str
) -> list[str]:
    """Why the lines do not lead from one balance to the other: then some are missing, or read wrong."""
    if opening is None or closing is None:
        return []
    moved = sum(line.amount if line.direction == "in" else -line.amount for line in lines)
    if opening + moved == closing:
        return []
    told = [f"{in_units(units, currency)} {currency}" for units in (opening, opening + moved, closing)]
    return [
        f"It opens with {told[0]}, its lines lead to {told[1]}, and it closes with {told[2]}: something is missing."
    ]


def _bare(account: str) -> str:
    return account.replace(" ", "").casefold()
