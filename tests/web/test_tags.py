"""What the tags write: words, no-break spaces, titles, and nothing that an attacker put there."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.template import Context, Template
from django.test import RequestFactory

NOW = datetime(2026, 3, 12, 14, 32, tzinfo=UTC)
HEX = "9f2c41ab7d03e5f6a81b20c4773e9d5510fe8a6b92d4c37f0be1635ad94ee07d"
NB = "\u00a0"


def write(source: str, **context: object) -> str:
    return Template("{% load counterfoil %}" + source).render(Context({"now": NOW, **context}))


def words(source: str, **context: object) -> str:
    return re.sub(r"<[^>]+>", "", write(source, **context))


@pytest.mark.parametrize(
    ("code", "mark", "shown"),
    [
        ("AWAITING_APPROVAL", "awaiting", "Awaiting approval"),
        ("READY_TO_COMMIT", "ready", "Approved, not sent"),
        ("SUBMITTED", "submitted", "Sent, no receipt yet"),
        ("NEEDS_RECONCILIATION", "unknown", "Outcome unknown"),
        ("BRAND_NEW", "pending", "Brand new"),
    ],
)
def test_state_shows_words_and_keeps_the_code_in_the_title(code: str, mark: str, shown: str) -> None:
    assert (
        write("{% state code %}", code=code)
        == f'<span class="state" data-s="{mark}" title="{code}">{shown}</span>'
    )


def test_state_reads_sending_until_bytes_may_have_left() -> None:
    expected = '<span class="state tag" data-s="submitted" title="SUBMITTED">Sending</span>'
    assert write('{% state "SUBMITTED" words="Sending" tag=True %}') == expected


@pytest.mark.parametrize("cause", ["Partly applied", "Answer differs"])
def test_state_keeps_plum_for_the_unknown(cause: str) -> None:
    assert 'data-s="mixed"' in write('{% state "NEEDS_RECONCILIATION" words=cause %}', cause=cause)


def test_state_escapes_what_it_is_given() -> None:
    assert "<b>" not in write("{% state code words=code %}", code='"><b>')


@pytest.mark.parametrize(
    ("amount", "currency", "shown"),
    [
        (Decimal("48200"), "EUR", f"€{NB}48,200.00"),
        ("6318.75", "USD", f"${NB}6,318.75"),
        (Decimal("125000"), "JPY", f"¥{NB}125,000"),
        (Decimal("3.125"), "KWD", f"KWD{NB}3.125"),
        (Decimal("-12.5"), "GBP", f"\u2212£{NB}12.50"),
        (Decimal("0.0049"), "EUR", f"€{NB}0.0049"),
        (Decimal("1E+3"), "EUR", f"€{NB}1,000.00"),
        (Decimal("99999999999999999999.99"), "EUR", f"€{NB}99,999,999,999,999,999,999.99"),
        (0, "EUR", f"€{NB}0.00"),
        (None, "EUR", "no amount"),
    ],
)
def test_money_has_a_sign_a_no_break_space_and_the_digits_of_its_currency(
    amount: Decimal | str | int | None, currency: str, shown: str
) -> None:
    assert words("{% money a c %}", a=amount, c=currency) == shown


def test_money_carries_the_exact_value() -> None:
    assert write('{% money a "EUR" %}', a=Decimal("48200.00")) == (
        f'<data class="money" value="48200.00">€{NB}48,200.00</data>'
    )


def test_money_in_the_box_of_a_slip_sets_the_sign_apart() -> None:
    assert write('{% money a "EUR" kind="box" %}', a=Decimal("5")) == (
        '<data class="box" value="5"><span>€</span>5.00</data>'
    )


def test_money_refuses_a_float() -> None:
    with pytest.raises(TypeError, match="float"):
        write("{% money a %}", a=0.1)


@pytest.mark.parametrize("amount", ["NaN", "Infinity", "<b>4</b>"])
def test_money_never_passes_off_what_is_no_amount(amount: str) -> None:
    shown = write("{% money a %}", a=amount)
    assert shown.startswith('<span class="late">not an amount: ')
    assert "<b>" not in shown


@pytest.mark.parametrize(
    ("amount", "currency", "shown"),
    [
        ("48200.00", "EUR", "Forty-eight thousand two hundred euros"),
        ("1", "EUR", "One euro"),
        ("12.50", "EUR", "Twelve euros and fifty cents"),
        ("12.01", "GBP", "Twelve British pounds and one penny"),
        ("1204", "USD", "One thousand two hundred and four US dollars"),
        ("125000", "JPY", "One hundred and twenty-five thousand Japanese yen"),
        ("3.125", "KWD", "Three Kuwaiti dinars and one hundred and twenty-five fils"),
        ("7.25", "PLN", "Seven Polish zlotys and 25/100"),
        ("0.005", "EUR", "Zero euros and 0.5/100"),
        ("-5", "EUR", "Minus five euros"),
        (None, "EUR", "No amount"),
    ],
)
def test_amount_words_read_as_on_a_cheque(amount: str | None, currency: str, shown: str) -> None:
    assert write("{% amount_words a c %}", a=amount, c=currency) == shown


@pytest.mark.parametrize(
    ("ago", "shown"),
    [
        (timedelta(seconds=41), "41 s"),
        (timedelta(minutes=23, seconds=59), "23 m"),
        (timedelta(hours=5, minutes=2), "5 h 02 m"),
        (timedelta(hours=2), "2 h"),
        (timedelta(days=1, hours=2, minutes=59), "1 d 2 h"),
        (timedelta(days=40), "40 d"),
        (timedelta(seconds=-5), "0 s"),
    ],
)
def test_age_has_two_units_at_most(ago: timedelta, shown: str) -> None:
    assert words("{% age then %}", then=NOW - ago) == shown.replace(" ", NB)


def test_age_past_its_limit_says_late_and_turns_red() -> None:
    shown = write("{% age then limit=limit %}", then=NOW - timedelta(hours=5), limit=timedelta(hours=4))
    assert shown == (
        '<time class="late" datetime="2026-03-12T09:32:00+00:00" title="Thu 12 Mar 2026, 09:32:00 UTC">'
        f"5{NB}h, late</time>"
    )


@pytest.mark.parametrize(
    ("until", "shown", "urgency"),
    [
        (timedelta(hours=1, minutes=47), "1 h 47 m left", ""),
        (timedelta(hours=1), "1 h left", ""),
        (timedelta(minutes=59, seconds=59), "59 m left", "soon"),
        (timedelta(0), "0 s over", "late"),
        (timedelta(minutes=-42), "42 m over", "late"),
        (timedelta(hours=19), "Fri 09:32", ""),
        (timedelta(days=9), "21 Mar 14:32", ""),
    ],
)
def test_left_says_how_long_and_how_urgent(until: timedelta, shown: str, urgency: str) -> None:
    html = write("{% left then %}", then=NOW + until)
    assert re.sub(r"<[^>]+>", "", html).replace(NB, " ") == shown
    assert html.startswith(f'<time class="{urgency}" datetime="')


def test_left_turns_amber_earlier_for_an_idempotency_key() -> None:
    assert 'class="soon"' in write("{% left then soon_hours=4 %}", then=NOW + timedelta(hours=3, minutes=12))


def test_times_that_are_not_set_say_so() -> None:
    assert words("{% age none %}|{% left none %}|{% when none %}", none=None) == "{0}|no limit|{0}".format(
        "\N{EN DASH}"
    )


@pytest.mark.parametrize(
    ("moment", "shown"),
    [
        (NOW - timedelta(minutes=1), "14:31:00"),
        (NOW - timedelta(hours=21), "Wed 17:32"),
        (NOW - timedelta(days=20), "20 Feb 14:32"),
        (NOW - timedelta(days=400), "5 Feb 2025"),
    ],
)
def test_when_says_no_more_than_is_needed(moment: datetime, shown: str) -> None:
    assert words("{% when m %}", m=moment).replace(NB, " ") == shown


def test_when_exact_prints_as_a_slip_does() -> None:
    assert words("{% when m exact=True %}", m=NOW).replace(NB, " ") == "Thu 12 Mar, 14:32:00"


@pytest.mark.parametrize("value", [HEX, f"sha256:{HEX}", bytes.fromhex(HEX), memoryview(bytes.fromhex(HEX))])
def test_digest_is_short_and_copies_whole(value: object) -> None:
    html = write("{% digest d %}", d=value)
    assert f'<code title="{HEX}">9f2c41ab…e07d</code>' in html
    assert f'data-copy="{HEX}" aria-label="Copy digest"' in html


def test_bars_draw_the_first_twelve_bytes() -> None:
    html = write("{% bars d %}", d=HEX)
    assert '<path d="M0 0h2v20H0zM6 0h10v20H6zM20 0h2v20H20zM24 0h4v20H24z' in html
    assert html == write("{% bars d %}", d=HEX[:24] + "00" * 20)
    assert html != write("{% bars d %}", d="8" + HEX[1:])
    assert "style" not in html


def test_quorum_shows_pips_and_words() -> None:
    assert (
        write("{% quorum 1 2 %}")
        == '<span class="quorum"><i class="on"></i><i></i><span>1 of 2</span></span>'
    )


@pytest.mark.parametrize(
    ("handle", "letters"), [("p.quint", "PQ"), ("d", "D"), ("anna_b.c", "AB"), ("<x>", "X")]
)
def test_seal_holds_initials(handle: str, letters: str) -> None:
    assert f">{letters}</text>" in write("{% seal h %}", h=handle)


def test_seal_without_a_signer_is_open() -> None:
    assert 'class="seal open"' in write("{% seal %}")


def test_references_and_copies_escape_their_value() -> None:
    html = write("{% ref v %}{% ref v url=v %}{% copy v %}", v='"><script>')
    assert "<script>" not in html
    assert html.count("&quot;&gt;&lt;script&gt;") == 5


@pytest.mark.parametrize(
    ("char", "title"),
    [
        ("\u202e", "U+202E RIGHT-TO-LEFT OVERRIDE"),
        ("\u2066", "U+2066 LEFT-TO-RIGHT ISOLATE"),
        ("\u200b", "U+200B ZERO WIDTH SPACE"),
        ("\u200d", "U+200D ZERO WIDTH JOINER"),
        ("\ufeff", "U+FEFF ZERO WIDTH NO-BREAK SPACE"),
        ("\u00a0", "U+00A0 NO-BREAK SPACE"),
        ("\u00ad", "U+00AD SOFT HYPHEN"),
        ("\u3164", "U+3164 HANGUL FILLER"),
        ("\U000e0041", "U+E0041 TAG LATIN CAPITAL LETTER A"),
        ("\ufe0f", "U+FE0F VARIATION SELECTOR-16"),
        ("\u2028", "U+2028 LINE SEPARATOR"),
        ("\x00", "U+0000 CONTROL"),
        ("\r", "U+000D CONTROL"),
        ("\x7f", "U+007F CONTROL"),
    ],
)
def test_visible_shows_what_a_reader_cannot_see(char: str, title: str) -> None:
    point = title.split()[0]
    assert (
        write("{{ v|visible }}", v=f"a{char}b")
        == f'a<span class="hidden-char" title="{title}">{point}</span>b'
    )


def test_visible_escapes_markup_and_leaves_plain_text_alone() -> None:
    assert write("{{ v|visible }}", v="<b>&'é\n\t 株式") == "&lt;b&gt;&amp;&#x27;é\n\t 株式"


def test_visible_isolates_right_to_left_text() -> None:
    assert write("{{ v|visible }}", v="שלום") == "<bdi>שלום</bdi>"


def test_visible_shows_nothing_for_nothing() -> None:
    assert write("{{ v|visible }}", v=None) == ""


def test_qs_keeps_the_other_keys_and_drops_what_is_empty() -> None:
    request = RequestFactory().get("/jobs/", {"state": "FAILED", "q": "a&b", "before": "9"})
    assert write('{% qs before=None q="c d" kind=kinds %}', request=request, kinds=["x", "y"]) == (
        "?state=FAILED&amp;q=c+d&amp;kind=x&amp;kind=y"
    )


def test_qs_of_nothing_links_to_the_page_itself() -> None:
    assert write("{% qs %}", request=RequestFactory().get("/jobs/")) == "?"


def test_span_is_a_duration_in_words() -> None:
    shown = words("{% span a %}|{% span 90 %}|{% span none %}", a=timedelta(hours=1, minutes=5), none=None)
    assert shown.replace(NB, " ") == "1 h 05 m|1 m|\N{EN DASH}"
