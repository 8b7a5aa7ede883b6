"""Asking the company bureau from a step: its register and its credit ratings, at COUNTERFOIL_BUREAU_URL.

An answer that is refused is raised as the library raises it: the engine retries 429 and 5xx, honours Retry-After, and
stops at other refusals. The client itself neither retries nor follows.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TypeVar
from urllib.parse import quote

import httpx
from django.conf import settings
from pydantic import BaseModel

from workflows.authoring import Ctx

A = TypeVar("A", bound=BaseModel)
TIMEOUT = 10.0


class Company(BaseModel):
    """A company as the register has it."""

    number: str
    legal_name: str


class Rating(BaseModel):
    """What a registered company is rated as, and since when."""

    rating: str
    as_of: str


def find_company(ctx: Ctx, *, country: str, name: str) -> Company | None:
    """The registered company of that name in that country, or None. Call it outside any transaction.

    Raises httpx.HTTPError for what can pass and for what is refused; ValidationError for an answer of another shape.
    """
    answer = _get(ctx, f"register/companies/{quote(country, safe='')}/{quote(name, safe='')}")
    if answer.status_code == 404 and _code(answer) == "no_such_company":
        return None
    return _read(answer, Company)


def rating_of(ctx: Ctx, *, number: str) -> Rating:
    """The rating of a registered company. As `find_company`."""
    return _read(_get(ctx, f"credit/ratings/{quote(number, safe='')}"), Rating)


def _get(ctx: Ctx, path: str) -> httpx.Response:
    url = f"{settings.COUNTERFOIL_BUREAU_URL.rstrip('/')}/{path}"
    return _client(os.getpid()).get(url, headers={"X-Request-Key": ctx.request_key})


def _read(answer: httpx.Response, schema: type[A]) -> A:
    answer.raise_for_status()
    return schema.model_validate_json(answer.content)


def _code(answer: httpx.Response) -> str:
    """What kind of "not found" it is: a page that stands in the way is no answer of the register."""
    try:
        content = answer.json()
    except ValueError:
        return ""
    return str(content.get("code", "")) if isinstance(content, dict) else ""


@cache
def _client(pid: int) -> httpx.Client:
    """One a process: a connection must not cross a fork."""
    return httpx.Client(timeout=TIMEOUT, trust_env=False, follow_redirects=False)
