"""What a reader sees of the text of others: nothing unseen stays unseen, and ordinary writing is left alone."""

from __future__ import annotations

import html
import re
import unicodedata
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from hypothesis import given
from hypothesis import strategies as st

from access.models import Person
from tests.web.test_tags import write
from web.hidden import is_hidden
from web.reading import ReaderMiddleware
from web.seeing import shown, sight_of, warnings

MARK = re.compile(r'<span class="hidden-char" title="[^"]*">U\+([0-9A-F]+)</span>')

NB = "\N{NO-BREAK SPACE}"
AT = datetime(2026, 3, 12, 14, 32, 5, 123, tzinfo=UTC)

ORDINARY = [
    "Müller & Söhne, Côte d’Ivoire – „ok“ …",
    unicodedata.normalize("NFD", "Việt Nam, Nguyễn Đình, Müller"),
    "Москва, ООО «Ромашка», Пётр Їжак",
    "Ελληνική Τράπεζα ΑΕ",
    "شركة النور ١٢٣",
    "می‌خواهم",
    'שלום עולם בע"מ',
    "株式会社山田　太郎 東京タワーB1",
    "ＡＢＣ株式会社",
    "김철수 ABC",
    "श्रीमान् क्‍ष १२३",
    "ශ්‍රී ලංකා",
    "Işık, Þór Æðelred, ʋuvu",
    "5 µm, kΩ, Δt, α-Amylase, H₂O, m², ½, ™, №5, −12.50 €",
    "👨‍👩‍👧‍👦 🧑🏽‍💻 ❤️‍🔥 🏳️‍🌈 1️⃣ 🇩🇪 👍🏽 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "a new emoji: \U0001fae9",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_writing_is_shown_as_it_is_and_nothing_is_said_of_it(text: str) -> None:
    assert warnings(text) == []
    assert html.unescape(re.sub(r"</?bdi>", "", shown(text))) == text


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("ACME\u202eDTL", ["202E"]),
        ("\u2067abc\u2069", ["2067", "2069"]),
        ("ref\u200b1\u2060", ["200B", "2060"]),
        ("soft\u00adhyphen", ["00AD"]),
        ("ACME\u00a0Ltd\u2007\u202f", ["00A0", "2007", "202F"]),
        ("tags\U000e0068\U000e0069", ["E0068", "E0069"]),
        ("\U0001f3f4\U000e0068\U000e0069\U000e007f", ["E0068", "E0069", "E007F"]),
        ("a\ufe0fb\U000e0101", ["FE0F", "E0101"]),
        ("B\u200dB and \u0627\u200c\u0628", ["200D", "200C"]),
        ("private \ue000, unassigned \U000e0fff, \ufdd0", ["E000", "E0FFF", "FDD0"]),
        ("z" + "\u0301" * 6, ["0301", "0301"]),
        ("\u0301abc", ["0301"]),
        ("a\u3000b", ["3000"]),
        ("a\x07b\x9b", ["0007", "009B"]),
    ],
)
def test_what_cannot_be_seen_is_shown_as_its_code_point_and_said_above(text: str, points: list[str]) -> None:
    assert MARK.findall(shown(text)) == points
    (said,) = warnings(text)
    assert "cannot be seen" in said
    assert all(f"U+{point} " in said for point in points)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("P\u0430ypal", "\u0430 in “P\u0430ypal” is Cyrillic (U+0430) and looks like a"),
        ("\u0430\u200bB", "\u0430 in “\u0430B” is Cyrillic (U+0430) and looks like a"),
        ("\u0410\u0421\u041c\u0415", "\u0415 in “\u0410\u0421\u041c\u0415” is Cyrillic (U+0415) and looks like E"),
        ("\u0391\u0392 Ltd", "\u0391 in “\u0391\u0392” is Greek (U+0391) and looks like A"),
        ("\u0414TEK", "T in “\u0414TEK” is Latin (U+0054) and looks like Cyrillic \u0422"),
        ("\U0001d400CME", "is a mathematical letter (U+1D400) and looks like A"),
        ("\uff21CME", "\uff21 in “\uff21CME” is Latin (U+FF21) and looks like A"),
        ("\u0261oogle", "is Latin (U+0261) and looks like g"),
        ("9\u09ea", "\u09ea in “9\u09ea” is Bengali (U+09EA) and looks like 8"),
        ("1\u09683", "looks like a digit; it is 2"),
        ("bank.example\u2215x", "is no letter (U+2215) and looks like /"),
    ],
)  # fmt: skip
def test_letters_that_look_like_others_are_named_with_their_script(text: str, said: str) -> None:
    assert said in warnings(text)[-1]
    assert 'class="look-alike"' in shown(text)


def test_one_word_of_another_script_is_remarked_on_only_where_it_can_be_mistaken() -> None:
    assert warnings("\u041e\u041e\u041e Ромашка") == []
    assert "\u041e\u041e\u041e" in warnings("\u041e\u041e\u041e ACME")[0]


def test_a_value_shows_the_blanks_that_a_page_would_swallow() -> None:
    assert MARK.findall(write("{% value v %}", v=" ACME  Ltd\t ")) == ["0020", "0020", "0009", "0020"]
    assert MARK.findall(write("{% value v %}", v="ACME Ltd\nBerlin")) == []


def test_a_value_carries_its_warning_above_itself_and_is_kept_from_its_neighbours() -> None:
    shown_value = write("{% value v 0 4 %}", v="ACME\u200b GmbH")
    assert shown_value.startswith(
        '<span class="warns"><span>1 character cannot be seen: U+200B ZERO WIDTH SPACE.'
    )
    assert '<span class="val" dir="auto"><mark>ACME</mark><span class="hidden-char"' in shown_value
    assert write("{% value v %}", v="שלום") == '<span class="val" dir="auto"><bdi>שלום</bdi></span>'


def test_a_long_value_says_its_length_and_opens_in_full() -> None:
    text = "x" * 99_999 + "\n<b>"
    written = write("{% value v %}", v=text)
    assert written.startswith('<details class="long"><summary>Begins “')
    assert "<b>100,003 characters in 2 lines, open to read all</b>" in written
    assert "x" * 99_999 + "\n&lt;b&gt;</span></details>" in written


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=40))
def test_whatever_is_written_nothing_unseen_reaches_the_page_and_nothing_is_lost(text: str) -> None:
    written = shown(text, exact=True)
    plain = html.unescape(re.sub(r"<[^>]*>", "", MARK.sub(lambda m: chr(int(m[1], 16)), written)))
    assert plain == text
    marked = len(MARK.findall(written))
    assert marked >= len(sight_of(text).hidden)
    if text.isascii():
        assert not any(is_hidden(c) for c in html.unescape(re.sub(r"<[^>]*>", "", written)))


@pytest.mark.parametrize(
    ("accepted", "figures", "exact"),
    [
        ("", "1,234,567.50", f"Thu{NB}12{NB}Mar, 14:32:05"),
        ("en-GB,en;q=0.9", "1,234,567.50", f"Thu{NB}12{NB}Mar, 14:32:05"),
        ("xx-none,de;q=0.8", "1.234.567,50", "Do., 12. März, 14:32:05"),
        ("en-US", "1,234,567.50", "Thu, Mar 12, 2:32:05\u202fPM"),
        ("en-IN", "12,34,567.50", "Thu, 12 Mar, 2:32:05\u202fPM"),
        ("sv", f"1{NB}234{NB}567,50", "tors 12 mars, 14:32:05"),
        ("'\"><script>,;q=x", "1,234,567.50", f"Thu{NB}12{NB}Mar, 14:32:05"),
    ],
)
def test_numbers_and_dates_are_written_as_the_reader_does(accepted: str, figures: str, exact: str) -> None:
    request = RequestFactory().get("/", headers={"accept-language": accepted})
    assert (
        rendered(request, "{% money a 'EUR' %}")
        == f'<data class="money" value="1234567.50">€{NB}{figures}</data>'
    )
    assert f">{exact}</time>" in rendered(request, "{% when t exact=True %}")
    assert rendered(request, "{{ n|number }}") == figures.replace("50", "").rstrip(".,")


def test_what_is_stored_stands_beside_it_in_no_readers_order() -> None:
    request = RequestFactory().get("/", headers={"accept-language": "de"})
    request.COOKIES["reads_as"] = "en-US"
    assert "1,234,567.50" in rendered(request, "{% money a 'EUR' %}")
    assert (
        rendered(request, "{% stored_amount a 'EUR' %}")
        == '<span class="stored">stored as 1234567.50 EUR</span>'
    )
    assert (
        rendered(request, "{% stored_time t %}") == '<span class="stored">2026-03-12T14:32:05.000123Z</span>'
    )


def test_thirty_digits_lose_none_in_anybodys_separators() -> None:
    for accepted in ("", "de", "hi", "fr", "ja"):
        request = RequestFactory().get("/", headers={"accept-language": accepted})
        html = rendered(request, "{% money a 'EUR' %}", a="9" * 30 + ".12345")
        assert "".join(c for c in html.split("€")[1] if c.isdigit()) == "9" * 30 + "12345"


@pytest.mark.django_db
def test_person_chooses_how_to_read_and_goes_back_to_where_they_were(client: Client) -> None:
    client.force_login(Person.objects.create_user("reader-of-numbers"))
    kept = client.post("/reads-as/", {"reads_as": "de", "back": "/t/a/jobs/?q=1"})
    assert (kept.status_code, kept.headers["location"], kept.cookies["reads_as"].value) == (
        302,
        "/t/a/jobs/?q=1",
        "de",
    )
    assert "1.234.567,50" in rendered(client.get("/").wsgi_request, "{% money a 'EUR' %}")
    other = client.post("/reads-as/", {"reads_as": "<b>", "back": "//evil.example/"})
    assert (other.headers["location"], other.cookies["reads_as"].value) == ("/", "")
    assert client.get("/reads-as/").status_code == 405


def rendered(request: HttpRequest, source: str, **more: object) -> str:
    """A template as the reader of this request gets it."""
    context = {"a": Decimal("1234567.50"), "t": AT, "n": 1_234_567, "now": AT, **more}

    def view(_: HttpRequest) -> HttpResponse:
        return HttpResponse(write(source, **context))

    return ReaderMiddleware(view)(request).content.decode()  # type: ignore[attr-defined]
