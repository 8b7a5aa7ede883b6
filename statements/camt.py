"""camt.053: a bank's XML, read entry by entry. Nothing that a document declares is loaded, fetched or expanded.

One line an entry. An entry that books several payments together, each with an amount that together make its own, is as
many lines: what we have sent is one of them. Entries that are not booked are no lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from lxml import etree

from statements.batches import Batch, account_faults, balance_faults
from statements.dates import DateFormat, read_date
from statements.lines import LONGEST_TEXT, Line, Problem, Unreadable, printable
from statements.numbers import NumberFormat, decimals, minor_units

LONGEST_RAW = 10_000
_TAGS = ("{*}Ntry", "{*}Stmt")
_NOT_GIVEN = ("NOTPROVIDED", "NONREF")
_BOOKED = ("", "BOOK")


def read(content: bytes, *, account: str) -> Batch:
    """All of a file."""
    reading = _Reading(account)
    try:
        for element in _elements(content):
            reading.take(element)
    except etree.XMLSyntaxError as wrong:
        reading.batch.refuse(f"It is no XML that can be read to its end: {printable(str(wrong.msg))}.")
    except Unreadable as wrong:
        reading.batch.refuse(str(wrong))
    else:
        if not reading.statements:
            reading.batch.refuse("There is no statement in it: it is no camt.053.")
    reading.batch.rows = reading.entries
    return reading.batch


def _elements(content: bytes) -> Iterator[Any]:
    """Elements as they end. Unreadable for a document that declares anything, or is another message."""
    walk = etree.iterparse(
        BytesIO(content), events=("end",), tag=_TAGS, resolve_entities=False, load_dtd=False, no_network=True,
        huge_tree=False, remove_comments=True, remove_pis=True,
    )  # fmt: skip
    for number, (_, element) in enumerate(walk):
        if number == 0:
            _check_document(element.getroottree())
        yield element


def _check_document(tree: Any) -> None:
    if tree.docinfo.internalDTD is not None or tree.docinfo.externalDTD is not None:
        raise Unreadable("It declares a document type, which no statement needs: it is not read.")
    space = etree.QName(tree.getroot()).namespace or ""
    if "camt.053" not in space:
        raise Unreadable(f"It is {printable(space, 100) or 'XML of no name'}, and no camt.053.")


@dataclass
class _Reading:
    """What has been read so far. An entry's number counts all of them, from 1."""

    account: str
    batch: Batch = field(default_factory=Batch)
    entries: int = 0
    statements: int = 0
    _of_statement: list[Line] = field(default_factory=list)
    _wrong_before: int = 0

    def take(self, element: Any) -> None:
        name = etree.QName(element).localname
        if name == "Ntry":
            self._entry(element)
            element.clear()
        else:
            self._close(element)
            element.clear()

    def _entry(self, entry: Any) -> None:
        if _text(entry, "Sts/Cd", "Sts") not in _BOOKED:
            self.entries += 1
            self.batch.add(self.entries, None, "")
            return
        raw = etree.tostring(entry, encoding="unicode", with_tail=False)[:LONGEST_RAW]
        for part in _parts(entry):
            self.entries += 1
            result = _line(entry, part)
            self.batch.add(self.entries, result, raw)
            if isinstance(result, Line):
                self._of_statement.append(result)

    def _close(self, statement: Any) -> None:
        """One statement's account and balances, once all of its entries are read."""
        self.statements += 1
        said = _text(statement, "Acct/Id/IBAN", "Acct/Id/Othr/Id")
        opening, closing = _balance(statement, "OPBD", "PRCD"), _balance(statement, "CLBD")
        faults = account_faults(said, self.account)
        if self.batch.wrong_rows == self._wrong_before and opening and closing:
            faults += balance_faults(opening[0], closing[0], self._of_statement, closing[1])
        for fault in faults:
            self.batch.refuse(fault)
        if self.statements == 1 and opening:
            self.batch.opening = opening[0]
        if closing:
            self.batch.closing = closing[0]
        self._of_statement, self._wrong_before = [], self.batch.wrong_rows


def _parts(entry: Any) -> list[Any]:
    """The payments that an entry books together, where their amounts make its own; else the entry as one."""
    details = entry.findall("{*}NtryDtls/{*}TxDtls")
    if len(details) > 1 and _make_it(entry, [_amount_of(d) for d in details]):
        ways = {_text(d, "CdtDbtInd") for d in details} - {"", _text(entry, "CdtDbtInd")}
        if not ways:
            return list(details)
    return [details[0] if len(details) == 1 else None]


def _make_it(entry: Any, amounts: list[tuple[int, str] | None]) -> bool:
    whole, known = _amount_of(entry), [a for a in amounts if a is not None]
    if whole is None or len(known) < len(amounts):
        return False
    return {currency for _, currency in known} == {whole[1]} and sum(units for units, _ in known) == whole[0]


def _amount_of(element: Any) -> tuple[int, str] | None:
    """In the smallest unit, with the currency; None without one or where it cannot be read."""
    for path in ("{*}Amt", "{*}AmtDtls/{*}TxAmt/{*}Amt"):
        found = element.find(path)
        if found is not None:
            currency = found.get("Ccy", "")
            try:
                return minor_units((found.text or "").strip(), NumberFormat.DOT, currency), currency
            except Unreadable:
                return None
    return None


def _line(entry: Any, part: Any) -> Line | list[Problem]:
    """One line of an entry, or of one of the payments that it books together."""
    problems: list[Problem] = []
    booked = _text(entry, "BookgDt/Dt", "BookgDt/DtTm", "ValDt/Dt", "ValDt/DtTm")
    valued = _text(entry, "ValDt/Dt", "ValDt/DtTm")
    days = []
    for name, said in (("BookgDt", booked), ("ValDt", valued or booked)):
        try:
            days.append(read_date(said, DateFormat.ISO))
        except Unreadable as unreadable:
            problems.append(Problem(name, printable(said), f"“{printable(said)}” {unreadable}"))
    several = part is not None and len(entry.findall("{*}NtryDtls/{*}TxDtls")) > 1
    amount, currency = _amount(part if several else entry, problems)
    direction = _text(part if several and _text(part, "CdtDbtInd") else entry, "CdtDbtInd")
    if direction not in ("CRDT", "DBIT"):
        problems.append(
            Problem("CdtDbtInd", printable(direction), f"“{printable(direction)}” is neither CRDT nor DBIT.")
        )
    if problems:
        return problems
    party = "Dbtr" if direction == "CRDT" else "Cdtr"
    return Line(
        booked_on=days[0],
        value_on=days[1] if valued else None,
        amount=amount,
        currency=currency,
        direction="in" if direction == "CRDT" else "out",
        receivers_id=_id_of(entry, part, several),
        reference=_given(
            _text(part, "Refs/EndToEndId"), _text(part, "Refs/InstrId"), _text(part, "Refs/PmtInfId")
        ),
        text=_words(entry, part),
        counterparty=_text(part, f"RltdPties/{party}/Pty/Nm", f"RltdPties/{party}/Nm"),
        counterparty_account=_text(
            part, f"RltdPties/{party}Acct/Id/IBAN", f"RltdPties/{party}Acct/Id/Othr/Id"
        ),
    )


def _amount(element: Any, problems: list[Problem]) -> tuple[int, str]:
    found = element.find("{*}Amt")
    if found is None:
        found = element.find("{*}AmtDtls/{*}TxAmt/{*}Amt")
    text, currency = ("", "") if found is None else ((found.text or "").strip(), found.get("Ccy", ""))
    try:
        decimals(currency)
        amount = minor_units(text, NumberFormat.DOT, currency)
        if amount < 0:
            raise Unreadable("has a minus; an element of its own says which way it went.")
    except Unreadable as unreadable:
        shown = printable(f"{text} {currency}".strip())
        problems.append(Problem("Amt", shown, f"“{shown}” {unreadable}"))
        return 0, ""
    return amount, currency


def _id_of(entry: Any, part: Any, several: bool) -> str:
    """The bank's own name of the line. Payments of one entry without names of their own are told apart by their texts."""
    own = _given(_text(part, "Refs/AcctSvcrRef"), _text(part, "Refs/TxId"))
    return own if several else _given(_text(entry, "AcctSvcrRef"), own)


def _words(entry: Any, part: Any) -> str:
    parts = [_said(e) for e in (() if part is None else part.findall("{*}RmtInf/{*}Ustrd"))]
    parts += [
        _text(part, "RmtInf/Strd/CdtrRefInf/Ref"),
        _text(part, "AddtlTxInf") or _text(entry, "AddtlNtryInf"),
    ]
    return " ".join(p for p in parts if p)[:LONGEST_TEXT]


def _balance(statement: Any, *codes: str) -> tuple[int, str] | None:
    for balance in statement.findall("{*}Bal"):
        if _text(balance, "Tp/CdOrPrtry/Cd") in codes:
            amount = _amount_of(balance)
            if amount is None:
                raise Unreadable("One of its balances cannot be read.")
            sign = -1 if _text(balance, "CdtDbtInd") == "DBIT" else 1
            return sign * amount[0], amount[1]
    return None


def _given(*texts: str) -> str:
    return next((t for t in texts if t and t not in _NOT_GIVEN), "")


def _text(element: Any, *paths: str) -> str:
    """The first of these that has text."""
    for path in paths if element is not None else ():
        found = element.find("/".join(f"{{*}}{name}" for name in path.split("/")))
        if found is not None and (said := _said(found)):
            return said
    return ""


def _said(element: Any) -> str:
    return " ".join((element.text or "").split())[:LONGEST_TEXT]
