"""camt.053 and MT940: what their entries come to, that the balances are led to, and files that mean harm."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from statements import camt, mt940
from statements.actions.uploading import FileTooLarge
from statements.batches import Batch
from statements.lines import Line
from statements.models import StatementState
from tests.statements.shelf import Shelf

IBAN = "DE12500105170648489890"
ENTRY = """<Ntry><Amt Ccy="EUR">20.00</Amt><CdtDbtInd>DBIT</CdtDbtInd><Sts><Cd>BOOK</Cd></Sts>
<BookgDt><Dt>2026-08-03</Dt></BookgDt><ValDt><Dt>2026-08-04</Dt></ValDt><AcctSvcrRef>B-1</AcctSvcrRef>
<NtryDtls><TxDtls><Refs><EndToEndId>CF-00001-01</EndToEndId></Refs><RltdPties><Dbtr><Pty><Nm>We</Nm></Pty></Dbtr>
<Cdtr><Pty><Nm>Müller &amp; Söhne</Nm></Pty></Cdtr><CdtrAcct><Id><IBAN>FR7630006000011234567890189</IBAN></Id></CdtrAcct></RltdPties>
<RmtInf><Ustrd>Invoice 4711</Ustrd><Ustrd>and 4712</Ustrd></RmtInf></TxDtls></NtryDtls></Ntry>"""
PENDING = ENTRY.replace("<Cd>BOOK</Cd>", "<Cd>PDNG</Cd>")
TOGETHER = """<Ntry><Amt Ccy="EUR">30.00</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts>BOOK</Sts><BookgDt><DtTm>2026-08-04T10:00:00</DtTm></BookgDt>
<AcctSvcrRef>B-2</AcctSvcrRef><NtryDtls><TxDtls><Refs><AcctSvcrRef>B-2a</AcctSvcrRef></Refs><Amt Ccy="EUR">10.00</Amt>
<RltdPties><Dbtr><Nm>One</Nm></Dbtr></RltdPties></TxDtls><TxDtls><Refs><EndToEndId>NOTPROVIDED</EndToEndId></Refs>
<Amt Ccy="EUR">20.00</Amt></TxDtls></NtryDtls></Ntry>"""


def camt_file(
    *entries: str, closing: str = "1010.00", namespace: str = "camt.053.001.08", head: str = ""
) -> bytes:
    balances = "".join(
        f'<Bal><Tp><CdOrPrtry><Cd>{code}</Cd></CdOrPrtry></Tp><Amt Ccy="EUR">{amount}</Amt><CdtDbtInd>CRDT</CdtDbtInd></Bal>'
        for code, amount in (("OPBD", "1000.00"), ("CLBD", closing))
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>{head}<Document xmlns="urn:iso:std:iso:20022:tech:xsd:{namespace}">'
        f"<BkToCstmrStmt><Stmt><Acct><Id><IBAN>{IBAN}</IBAN></Id></Acct>{balances}{''.join(entries)}</Stmt></BkToCstmrStmt></Document>"
    ).encode()


MT940 = """:20:STARTUMSE
:25:10020030/1234567
:28C:00001/001
:60F:C260801EUR1000,00
:61:2608040803D20,00NTRFCF-00001-01//B4E08
:86:177?00SEPA?20EREF+CF-00001-01?21SVWZ+Invoice 4711 for?22 services?31DE12500105170648489890?32Müller?33 GmbH
:61:2608040804CR5,5NTRFNONREF
:86:Plain text
:62F:C260804EUR985,50
-
"""


def told(batch: Batch) -> str:
    return "\n".join(f"{number}: {problem.sentence}" for number, problem in batch.problems)


def lines_of(batch: Batch) -> list[Line]:
    assert told(batch) == ""
    return [line for _, line, _ in batch.lines]


def test_an_entry_of_camt_is_a_line_with_all_that_matching_needs() -> None:
    batch = camt.read(camt_file(ENTRY, PENDING, TOGETHER), account=IBAN)
    first, one, two = lines_of(batch)
    assert first == Line(
        date(2026, 8, 3), date(2026, 8, 4), 2000, "EUR", "out", "B-1", "CF-00001-01", "Invoice 4711 and 4712",
        "Müller & Söhne", "FR7630006000011234567890189",
    )  # fmt: skip
    assert [(n.amount, n.direction, n.receivers_id, n.counterparty, n.reference) for n in (one, two)] == [
        (1000, "in", "B-2a", "One", ""),
        (2000, "in", "", "", ""),
    ]
    assert (batch.left_out, batch.opening, batch.closing) == (1, 100_000, 101_000)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (camt_file(ENTRY), "it closes with 1010.00 EUR: something is missing"),
        (camt_file(ENTRY, namespace="camt.054.001.08"), "and no camt.053"),
        (camt_file(ENTRY)[:-30], "no XML that can be read to its end"),
        (b"<?xml version='1.0'?><Document xmlns='urn:camt.053'/>", "There is no statement in it"),
        (camt_file(ENTRY.replace("20.00", "20.001")), "1: “20.001 EUR” has 3 decimals"),
        (camt_file(ENTRY.replace("20.00", "")), "1: “EUR” is empty"),
        (camt_file(ENTRY.replace("20.00", "-20.00")), "has a minus"),
        (camt_file(ENTRY.replace("DBIT", "D")), "1: “D” is neither CRDT nor DBIT"),
        (camt_file(ENTRY.replace("2026-08-03", "2026-02-30")), "1: “2026-02-30” is no day of the calendar"),
        (camt_file(ENTRY, closing="1,0"), "One of its balances cannot be read"),
    ],
)
def test_what_is_wrong_with_a_camt_is_told_and_is_no_line(content: bytes, why: str) -> None:
    assert why in told(camt.read(content, account=IBAN))


def test_a_camt_of_another_account_is_refused() -> None:
    assert f"It is of account {IBAN}, and was uploaded for DE99." in told(
        camt.read(camt_file(ENTRY, closing="980.00"), account="DE99")
    )
    assert lines_of(camt.read(camt_file(ENTRY, closing="980.00"), account="de12 5001 0517 0648 4898 90"))


def test_a_document_that_declares_anything_is_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    laughs = '<!DOCTYPE D [<!ENTITY a "ha">' + "".join(
        f'<!ENTITY a{n} "{"&a;" * 10}">' for n in range(9)
    ) + "]>"  # fmt: skip
    for head in (
        f'<!DOCTYPE D [<!ENTITY a SYSTEM "file://{secret}">]>',
        laughs,
        '<!DOCTYPE D SYSTEM "http://127.0.0.1:1/x.dtd">',
    ):
        content = camt_file(ENTRY.replace("Invoice 4711", "&a;" if "ENTITY" in head else "text"), head=head)
        batch = camt.read(content, account=IBAN)
        assert batch.lines == []
        assert "It declares a document type" in told(batch) or "no XML that can be read" in told(batch)
        assert "the secret" not in told(batch)
    deep = camt_file("<a>" * 5000 + "</a>" * 5000)
    assert "no XML that can be read" in told(camt.read(deep, account=IBAN))


def read_mt940(text: str, account: str = "") -> Batch:
    return mt940.read(text.encode(), encoding="utf-8", account=account)


def test_an_entry_of_mt940_is_a_line_with_all_that_matching_needs() -> None:
    batch = read_mt940(MT940, "10020030/1234567")
    assert lines_of(batch) == [
        Line(
            date(2026, 8, 3), date(2026, 8, 4), 2000, "EUR", "out", "B4E08", "CF-00001-01", "Invoice 4711 for services",
            "Müller GmbH", IBAN,
        ),
        Line(date(2026, 8, 4), date(2026, 8, 4), 550, "EUR", "in", "", "", "Plain text", "", ""),
    ]  # fmt: skip
    assert [number for number, _, _ in batch.lines] == [5, 7]
    assert (batch.opening, batch.closing) == (100_000, 98_550)


@pytest.mark.parametrize(
    ("was", "instead", "why"),
    [
        ("0803D20,00", "0803D2x,00", "5: The entry is not written as SWIFT has it"),
        ("D20,00NTRF", "D20.00NTRF", "5: The entry is not written as SWIFT has it"),
        ("260804" + "0803", "260230" + "0230", "5: The entry cannot be read (day is out of range for month)"),
        ("D20,00", "D20,005", "5: The entry has more decimals than EUR has."),
        ("985,50", "985,51", "0: It opens with 1000.00 EUR, its lines lead to 985.50 EUR, and it closes with 985.51 EUR"),
        ("C260801EUR1000,00", "C26080", "1: What stands around the entries"),
        (":20:", ":21:", "There is no statement in it"),
        ("Plain text", "a\0b", "It has a NUL in it"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_mt940_is_told_and_is_no_line(was: str, instead: str, why: str) -> None:
    batch = read_mt940(MT940.replace(was, instead))
    assert why in told(batch)
    assert len(batch.lines) < 2 or batch.problems[0][0] == 0


def test_a_broken_entry_takes_nothing_of_the_next_one() -> None:
    batch = read_mt940(MT940.replace("0803D20,00", "0803D2x,00"))
    assert [(number, line.amount, line.text) for number, line, _ in batch.lines] == [(7, 550, "Plain text")]


def test_a_reversal_goes_the_way_that_it_says_and_pages_follow_each_other() -> None:
    reversal = MT940.replace("0804CR5,5", "0804RC5,50").replace("985,50", "974,50")
    assert [line.direction for line in lines_of(read_mt940(reversal))] == ["out", "out"]
    second = MT940.replace(":60F:C260801EUR1000,00", ":60M:C260804EUR985,50").replace(
        ":62F:C260804EUR985,50", ":62F:C260804EUR971,00"
    )
    batch = read_mt940(MT940.replace(":62F:", ":62M:") + second)
    assert len(lines_of(batch)) == 4
    assert (batch.opening, batch.closing) == (100_000, 97_100)


def test_a_text_that_names_a_file_is_text_and_no_file_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "other.sta"
    path.write_text(MT940)
    assert "no line begins with :20:" in told(read_mt940(str(path)))
    assert os.path.exists(path)
    assert logging.getLogger("mt940").getEffectiveLevel() >= logging.CRITICAL, (
        "it would log what stands in a file"
    )


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("content", "name", "changed"),
    [
        (camt_file(ENTRY, TOGETHER), "camt.xml", lambda c: c.replace(b"Invoice", b"Bill")),
        (MT940.encode("cp1252"), "mt940.sta", lambda c: c.replace(b"Plain", b"Other")),
    ],
    ids=["camt", "mt940"],
)
def test_a_file_of_another_format_is_read_without_a_mapping_and_applied(
    shelf: Shelf, content: bytes, name: str, changed: Callable[[bytes], bytes]
) -> None:
    account = IBAN if name == "camt.xml" else "10020030/1234567"
    first = shelf.read(content, name=name, account=account)
    statement = shelf.statement(first)
    assert (statement.state, statement.errors, statement.mapping) == (StatementState.READ, 0, None)
    assert statement.opening == 100_000
    count = statement.lines
    assert shelf.apply(first) == count
    again = shelf.read(changed(content) + b"\n", name=name, account=account)
    assert shelf.statement(again).lines + shelf.statement(again).repeated == count


@pytest.mark.django_db(transaction=True)
def test_a_large_file_that_is_no_table_is_refused_when_it_comes(
    shelf: Shelf, settings: pytest.Config
) -> None:
    settings.COUNTERFOIL_LARGEST_FILE = 500  # type: ignore[attr-defined]
    with pytest.raises(FileTooLarge, match=r"at most that is taken as camt\.053"):
        shelf.upload(camt_file(ENTRY))
