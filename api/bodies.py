"""What is sent about proposals, read strictly: a member that is not known is refused, for it was meant to say something."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from api.problems import BadRequest, WrongBody
from approvals.forms import LONGEST_DIGEST, MOST_FIELDS, Posted
from approvals.queries import Which, is_cursor
from workflows import submissions, wording
from workflows.authoring import Problem
from workflows.submissions import InvalidSubmission

LONGEST_FIELD = 300
LONGEST_PASSWORD = 1000
MOST_ROWS = 100
HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Listing:
    """Which page of which tab is asked for."""

    tab: Which
    after: str
    limit: int


def read_decision(body: bytes) -> Posted:
    """A decision. Raises BadRequest for what is no JSON object, WrongBody for what is in it."""
    whole = _object(body)
    known: dict[str, type] = {"verdict": str, "digest": str, "reason": str, "fields": list, "knows_of": int}
    problems = _problems(whole, known, needed=("verdict", "digest"))
    fields, digest = whole.get("fields", []), whole.get("digest")
    if type(fields) is list:
        if any(type(f) is not str or len(f) > LONGEST_FIELD for f in fields):
            problems.append(Problem("fields", f"are names of up to {LONGEST_FIELD} characters"))
        if len(fields) > MOST_FIELDS:
            problems.append(Problem("fields", f"are {MOST_FIELDS} at most"))
    known_twin = whole.get("knows_of", 0)
    if type(known_twin) is int and not 0 <= known_twin < 2**63:
        problems.append(Problem("knows_of", "is the number of a proposal"))
    if type(digest) is str and len(digest) > LONGEST_DIGEST:
        problems.append(Problem("digest", "is the 64 characters that the proposal shows"))
    if problems:
        raise WrongBody(problems)
    return Posted(
        whole["verdict"], whole["digest"], whole.get("reason", ""), tuple(fields), whole.get("knows_of", 0)
    )


def read_password(body: bytes) -> str:
    """A password. Its value stands in no refusal."""
    whole = _object(body)
    problems = _problems(whole, {"password": str}, needed=("password",))
    if not problems and len(whole["password"]) > LONGEST_PASSWORD:
        problems.append(Problem("password", f"has {LONGEST_PASSWORD} characters at most"))
    if not problems and HALF_A_CHARACTER.search(whole["password"]):
        problems.append(Problem("password", "holds half a character (a lone surrogate)"))
    if problems:
        raise WrongBody(problems)
    password: str = whole["password"]
    return password


def read_list(query: Mapping[str, str]) -> Listing:
    """What the query string of the list says. Raises BadRequest."""
    unknown = set(query) - {"tab", "after", "limit"}
    tab, after, limit = query.get("tab", Which.FOR_ME), query.get("after", ""), query.get("limit", "50")
    if unknown:
        raise BadRequest(
            f"{', '.join(sorted(unknown))[:200]}: not known here. There are tab, after and limit."
        )
    if tab not in list(Which):
        raise BadRequest(f"tab is one of {', '.join(Which)}.")
    if after and not is_cursor(after):
        raise BadRequest("after is what the page before gave in its next.")
    if not (limit.isascii() and limit.isdigit() and len(limit) < 4 and 1 <= int(limit) <= MOST_ROWS):
        raise BadRequest(f"limit is a number from 1 to {MOST_ROWS}.")
    return Listing(Which(tab), after, int(limit))


def _object(body: bytes) -> dict[str, Any]:
    try:
        whole = submissions.parse(body)
    except InvalidSubmission as repeated:
        raise BadRequest(f"{repeated}. Which of the two was meant is not guessed.") from repeated
    if not isinstance(whole, dict):
        raise BadRequest("Send a JSON object.")
    return whole


def _problems(whole: dict[str, Any], known: dict[str, type], needed: tuple[str, ...]) -> list[Problem]:
    missing = (Problem(name, "is missing") for name in needed if name not in whole)
    return wording.named(chain(missing, _misfits(whole, known)))


def _misfits(whole: dict[str, Any], known: dict[str, type]) -> Iterator[Problem]:
    for name, value in whole.items():
        if name not in known:
            told = f"is not known; there are {', '.join(known)}. Who decides is whoever is signed in."
            yield Problem(wording.place(name), told)
        elif type(value) is not known[name]:  # a fraction is kept as a kind of text by the parser
            yield Problem(name, "is a list of names" if known[name] is list else "is text")
