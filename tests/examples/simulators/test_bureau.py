"""The company bureau: what it answers, what it logs, and that a fault strikes once and is gone."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from examples.simulators.bureau.companies import register_number
from examples.simulators.client import BureauControl, Running, start_bureau

pytestmark = pytest.mark.processes
TARN = "/register/companies/NL/Tarn%20Freight"


@pytest.fixture
def asks(bureau: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=bureau.base_url, trust_env=False, timeout=10) as client:
        yield client


def test_company_is_registered_and_rated_under_one_number_for_ever(asks: httpx.Client) -> None:
    number = register_number("NL", "Tarn Freight")

    found = [asks.get(TARN).json(), asks.get("/register/companies/NL/TARN FREIGHT").json()]
    rated = asks.get(f"/credit/ratings/{number}").json()

    assert [f["number"] for f in found] == [number, number]
    assert found[0] == {
        "number": number,
        "legal_name": "Tarn Freight B.V.",
        "country": "NL",
        "status": "active",
    }
    assert (rated["number"], rated["rating"] in "ABCD") == (number, True)
    assert asks.get(f"/credit/ratings/{number}").json() == rated


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/register/companies/NL/Unlisted%20Timber", "no_such_company"),
        ("/register/companies/XX/Tarn%20Freight", "no_such_company"),
        ("/register/companies/NL/%20", "no_such_company"),
        ("/register/companies/NL", "no_such_endpoint"),
        ("/credit/ratings/NL-12", "no_such_endpoint"),
        ("/credit", "no_such_endpoint"),
    ],
)
def test_what_is_not_there_is_said_to_be_so(asks: httpx.Client, path: str, code: str) -> None:
    answer = asks.get(path)

    assert (answer.status_code, answer.json()["code"]) == (404, code)


def test_refusal_strikes_as_often_as_asked_and_every_request_is_logged(
    asks: httpx.Client, bureau_control: BureauControl
) -> None:
    bureau_control.set_fault("status_429", path="/register/companies/NL", method="GET", retry_after="7")

    answers = [asks.get("/register/companies/PL/Tarn%20Freight"), asks.get(TARN), asks.get(TARN)]

    assert [a.status_code for a in answers] == [200, 429, 200]
    assert answers[1].headers["Retry-After"] == "7"
    logged = bureau_control.requests(path=TARN)
    assert [(r["status"], r["fault"], r["outcome"]) for r in logged] == [
        (429, "status_429", "answered"),
        (200, None, "answered"),
    ]
    assert bureau_control.faults() == []


def test_lost_answer_is_logged_as_such(asks: httpx.Client, bureau_control: BureauControl) -> None:
    bureau_control.set_fault("drop_after_commit", method="GET")

    with pytest.raises(httpx.RemoteProtocolError):
        asks.get(TARN)

    assert [r["outcome"] for r in bureau_control.requests()] == ["dropped"]


def test_fault_that_cannot_be_is_refused(asks: httpx.Client) -> None:
    for asked, named in (({"kind": "flood"}, "kind"), ({"kind": "slow", "contract": "keyed"}, "contract")):
        answer = asks.post("/faults", json=asked)

        assert (answer.status_code, named in answer.json()["detail"]) == (422, True)


def test_log_survives_a_kill(tmp_path: Path) -> None:
    database = tmp_path / "bureau.sqlite3"
    with start_bureau(database=database) as running:
        httpx.get(f"{running.base_url}{TARN}", trust_env=False)
        running.kill()
    with start_bureau(database=database) as running:
        assert [r["path"] for r in BureauControl(running.base_url).requests()] == [TARN]


def test_page_shows_what_was_asked_and_escapes_it(asks: httpx.Client, bureau_control: BureauControl) -> None:
    bureau_control.set_fault("status_503", path="/credit/", method="GET", times=3)
    asks.get("/register/companies/NL/<script>")

    page = asks.get("/").text

    assert "1 requests." in page
    assert "status_503" in page
    assert "<script>" not in page
