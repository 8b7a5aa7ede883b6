"""MT940: SWIFT's statement in lines that begin with tags. The tags are read by the library, entry by entry.

Each entry is given to it alone, so that one that cannot be read is an error of its own line. It is kept from two things that
it does by itself: mending a day that no calendar has, and opening a file whose name it is given as text.
"""

from __future__ import annotations

import logging
import re
from datetime import date
from decimal import Decimal
from typing import Any

from mt940 import Options
from mt940.models import Transactions

from statements.batches import Batch, account_faults, balance_faults
from statements.lines import LONGEST_TEXT, Line, Problem, Unreadable, printable
from statements.numbers import LARGEST, decimals

_BLOCK = re.compile(r"^(?=:20:)", re.MULTILINE)
_ENTRY = re.compile(r"^(?=:61:)", re.MULTILINE)
_TAIL = re.compile(r"^(?=:6[24][FM]?:|:65:)", re.MULTILINE)
_ENTRY_FORM = re.compile(
    r":61:[0-9]{6}(?:[0-9]{4})?R?[DC][A-Z]?\n?[0-9]{1,12},[0-9]{0,3}[A-Z][A-Z0-9]{3}", re.ASCII
)
_DETAILS = ("purpose", "additional_purpose", "transaction_details")
_NOT_GIVEN = ("NONREF", "NOTPROVIDED", "")
_STRICT: dict[str, list[Any]] = {"pre_statement": []}
"""Without the processor that turns 30 February into the 28th."""
logging.getLogger("mt940").setLevel(logging.CRITICAL)


def read(content: bytes, *, encoding: str, account: str) -> Batch:
    """All of a file. `encoding`: how its bytes become text; a byte that does not fit makes it none."""
    batch = Batch()
    try:
        text = content.decode(encoding).replace("\r\n", "\n").lstrip("\ufeff")
    except UnicodeDecodeError as wrong:
        batch.refuse(f"A byte of it is no character in {wrong.encoding}.")
        return batch
    batch.rows = text.count("\n") + 1
    if "\0" in text:
        batch.refuse("It has a NUL in it, which no text has.")
        return batch
    line = 1
    blocks = 0
    for block in _BLOCK.split(text):
        if block.startswith(":20:"):
            blocks += 1
            _block(block, line, account, batch)
        line += block.count("\n")
    if not blocks:
        batch.refuse("There is no statement in it: no line begins with :20:.")
    return batch


def _block(block: str, line: int, account: str, batch: Batch) -> None:
    """One statement: what is said before its entries, they, and what is said after."""
    head, *entries = _ENTRY.split(block)
    *before, last = [head, *entries]
    last, *tail = _TAIL.split(last)
    head, *entries = [*before, last]
    try:
        data = _parsed("\n".join((head, *tail)), {}).data
        opening, closing = _balance(data, "opening"), _balance(data, "closing")
    except Unreadable as wrong:
        batch.add(
            line,
            [Problem("", printable(head), f"What stands around the entries of this statement {wrong}")],
            "",
        )
        return
    line += head.count("\n")
    lines: list[Line] = []
    wrong_before = batch.wrong_rows
    for entry in entries:
        try:
            lines.append(_line(entry, data))
            batch.add(line, lines[-1], entry.rstrip("\n"))
        except Unreadable as wrong:
            batch.add(line, [Problem(":61:", printable(entry), f"The entry {wrong}")], "")
        line += entry.count("\n")
    faults = account_faults(str(data.get("account_identification", "")), account)
    if batch.wrong_rows == wrong_before and opening and closing:
        faults += balance_faults(opening[0], closing[0], lines, closing[1])
    for fault in faults:
        batch.refuse(fault)
    if opening and batch.opening is None:
        batch.opening = opening[0]
    if closing:
        batch.closing = closing[0]


def _line(entry: str, head: dict[str, Any]) -> Line:
    """One entry. Unreadable for whatever is not as SWIFT writes it: the library would take a part of it for all."""
    if _ENTRY_FORM.match(entry) is None:
        raise Unreadable("is not written as SWIFT has it: day, D or C, amount with a comma, type, reference.")
    found = _parsed(entry, head).transactions
    if len(found) != 1:
        raise Unreadable("has another entry inside of it: a line end is missing.")
    data = found[0].data
    amount, currency = data["amount"].amount, str(data.get("currency") or "")
    units = _units(amount, currency)
    booked = data.get("guessed_entry_date") or data["date"]
    details = " ".join(str(data.get(name) or "") for name in _DETAILS)
    return Line(
        booked_on=date(booked.year, booked.month, booked.day),
        value_on=date(data["date"].year, data["date"].month, data["date"].day),
        amount=abs(units),
        currency=currency,
        direction="in" if units >= 0 else "out",
        receivers_id=_given(data, "bank_reference"),
        reference=_given(data, "end_to_end_reference", "customer_reference"),
        text=" ".join(details.split())[:LONGEST_TEXT],
        counterparty=_given(data, "applicant_name"),
        counterparty_account=_given(data, "applicant_iban", "gvc_applicant_iban"),
    )


def _parsed(text: str, head: dict[str, Any]) -> Transactions:
    """What the library makes of some tags. `head`: what was said before them."""
    transactions = Transactions(processors=_STRICT, options=Options.all())
    transactions.data.update(head)
    try:
        transactions.parse(text)
    except (
        RuntimeError,
        ValueError,
        ArithmeticError,
    ) as wrong:  # its own for a tag, and those of days and numbers
        raise Unreadable(f"cannot be read ({printable(str(wrong.args[0]), 100)}).") from wrong
    return transactions


def _units(amount: Decimal, currency: str) -> int:
    units = amount.scaleb(decimals(currency))
    if units != units.to_integral_value():
        raise Unreadable(f"has more decimals than {currency} has.")
    if abs(units) > LARGEST:
        raise Unreadable("has too large an amount.")
    return int(units)


def _balance(data: dict[str, Any], which: str) -> tuple[int, str] | None:
    """The final balance, or else the one of this page of several."""
    for kind in ("final", "intermediate"):
        if (found := data.get(f"{kind}_{which}_balance")) is not None:
            currency = str(found.amount.currency)
            return _units(found.amount.amount, currency), currency
    return None


def _given(data: dict[str, Any], *names: str) -> str:
    texts = (" ".join(str(data.get(name) or "").split()) for name in names)
    return next((t[:LONGEST_TEXT] for t in texts if t not in _NOT_GIVEN), "")
