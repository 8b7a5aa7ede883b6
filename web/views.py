"""The styleguide: every component with the words of an invented afternoon."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from django import forms
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from web import reading
from web.htmx import Conflict, Side
from web.navigation import Room
from web.vocabulary import SIGNS

NOW = datetime(2026, 3, 12, 14, 32, tzinfo=UTC)
OLD = "9f2c41ab7d03e5f6a81b20c4773e9d5510fe8a6b92d4c37f0be1635ad94ee07d"
NEW = "71d0be5c7d03e5f6a81b20c4773e9d5510fe8a6b92d4c37f0be1635ad94e18f3"


COLOURS = (
    "paper",
    "sheet",
    "stub",
    "tint",
    "ink",
    "ink-2",
    "ink-3",
    "pen",
    "ok",
    "wait",
    "doubt",
    "fail",
    "move",
)


class ReasonForm(forms.Form):
    amount = forms.DecimalField(help_text="In euros. Two decimals.")
    receiver = forms.ChoiceField(choices=[("erp", "Astrel ERP"), ("bank", "Tern Payments")])
    reason = forms.CharField(widget=forms.Textarea, help_text="Kept in the journal.")
    comment = forms.CharField(required=False)


@require_POST
def reads_as(request: HttpRequest) -> HttpResponse:
    """Keep how this person reads numbers and dates, in a cookie as the colours are, and go back to where they were."""
    back = request.POST.get("back", "")
    safe = url_has_allowed_host_and_scheme(back, {request.get_host()}, require_https=request.is_secure())
    response = redirect(back if safe else "/")
    chosen = request.POST.get("reads_as", "")
    if chosen and chosen in dict(reading.CHOICES):
        response.set_cookie(
            reading.CHOSEN,
            chosen,
            max_age=timedelta(days=400),
            secure=request.is_secure(),
            httponly=True,
            samesite="Lax",
        )
    else:
        response.delete_cookie(reading.CHOSEN)
    return response


@login_not_required
def styleguide(request: HttpRequest) -> HttpResponse:
    """Every component on one page. Reads nothing and writes nothing."""
    return render(request, "web/styleguide.html", _context())


def _context() -> dict[str, object]:
    return {
        "now": NOW,
        "nav": [
            Room("Home", "#home", "h"),
            Room("Approvals", "#approvals", "a", 7, current=True),
            Room("Reconcile", "#reconcile", "r", 9),
            Room("Jobs", "#jobs", "j"),
            Room("Receivers", "#receivers", "v"),
        ],
        "search_url": "#find",
        "roles": "Manager",
        "installation": "Tallowmere Group",
        "colours": COLOURS,
        "codes": list(SIGNS),
        "digest_now": OLD,
        "amount": Decimal("48200.00"),
        "amounts": [
            (Decimal("48200"), "EUR"),
            (Decimal("-12.5"), "GBP"),
            (Decimal("125000"), "JPY"),
            (Decimal("3.125"), "KWD"),
            (None, "EUR"),
        ],
        "started": NOW - timedelta(hours=2, minutes=13),
        "yesterday": NOW - timedelta(hours=20, minutes=48),
        "hour": timedelta(hours=1),
        "soon": NOW + timedelta(minutes=23),
        "later": NOW + timedelta(hours=1, minutes=47),
        "tomorrow": NOW + timedelta(hours=19),
        "over": NOW - timedelta(minutes=42),
        "tricky": "Fennmark\u202e gnitsaC\u202c Ltd\u200b, account 90\u00a032",
        "form": ReasonForm({"amount": "forty", "receiver": "erp", "reason": ""}),
        "conflict": Conflict(
            title="This proposal changed while you were looking",
            not_done="Your signature was not recorded and nothing was sent.",
            because="Vendor record V-30417 moved to version 42 at 14:31, so the old slip is void.",
            was=Side(
                "What you were looking at",
                "20385-01",
                OLD,
                "Void 14:31",
                (("Signatures", "1 of 2, p.quint"),),
            ),
            now=Side("What it is now", "20385-02", NEW, facts=(("Signatures", "0 of 2"),)),
            same="The amount, € 48,200.00, and the other four fields are the same.",
            next_url="#new",
            next_label="Read the new slip",
            back_url="#inbox",
            back_label="Back to the inbox",
        ),
    }
