"""Asking a policy who could approve something: a form, and the answer below it. Reads only; a draft may be asked too."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.http import HttpResponseBase
from django.template.response import TemplateResponse
from django.views.decorators.http import require_http_methods
from pydantic import ValidationError

from access.directory import directory
from access.doors import TenantRequest, tenant_page
from access.roles import Role
from access.tenancy import reading
from approvals.facts import all_in_force, in_force, newest
from approvals.governing import queries
from approvals.governing.moments import NoMoment, read_moment
from approvals.policy_text import LONGEST, read
from approvals.ruleset import Money, RuleSet
from approvals.simulating import Question, simulate
from approvals.telling import told
from workflows.wording import problems_in

FURTHEST = timedelta(days=3660)


class TryForm(forms.Form):
    """What is asked. Everything that is left empty is left out of the question."""

    use_required_attribute = False
    workflow = forms.ChoiceField(required=False, help_text="Its own policy is asked, if no other is chosen.")
    policy = forms.ChoiceField(required=False, label="Policy")
    amount = forms.CharField(
        required=False,
        max_length=40,
        widget=forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"}),
    )
    currency = forms.CharField(required=False, max_length=10, widget=forms.TextInput(attrs={"size": 4}))
    recipient = forms.CharField(required=False, max_length=300)
    initiator = forms.CharField(
        required=False,
        max_length=150,
        label="Started by",
        widget=forms.TextInput(attrs={"list": "known-people", "autocomplete": "off"}),
    )
    at = forms.CharField(
        required=False,
        max_length=30,
        label="Asked at",
        widget=forms.TextInput(attrs={"type": "datetime-local"}),
    )
    text = forms.CharField(
        required=False,
        max_length=LONGEST,
        label="A draft in its place",
        strip=False,
        widget=forms.Textarea(attrs={"rows": 10, "spellcheck": "false"}),
    )

    def __init__(self, data: Any, *, now: datetime, zone: ZoneInfo) -> None:
        super().__init__(data)
        self.now, self.zone = now, zone
        self.installed = {w.name: w for w in queries.installed()}
        self.people = {m.handle: m.person_id for m in directory().members.values()}
        names = [p.name for p in all_in_force()]
        posted = str(self.data.get("policy", "")) if self.is_bound else ""
        named = sorted({*names, *([posted] if posted.strip() and posted.isprintable() else [])})
        self.fields["workflow"].choices = [("", "–"), *((n, w.title or n) for n, w in self.installed.items())]  # type: ignore[attr-defined]
        self.fields["policy"].choices = [("", "the workflow’s own"), *((n, n) for n in named)]  # type: ignore[attr-defined]
        self.rules: RuleSet | None = None

    @property
    def rules_given(self) -> str:
        """The draft as it was given, if one was."""
        return str(self.data.get("text", "")) if self.is_bound else ""

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        workflow = self.installed.get(given.get("workflow", ""))
        given["policy"] = given.get("policy") or (workflow.approval_policy if workflow else "")
        self._find_rules(given)
        self._clean_money(given)
        self._clean_at(given)
        handle = given.get("initiator", "").strip()
        if handle and handle not in self.people:
            self.add_error("initiator", "There is nobody of that name here.")
        return given

    def question(self) -> Question:
        """What was asked, of a form that is valid."""
        assert self.rules is not None
        given = self.cleaned_data
        return Question(
            policy=given["policy"],
            rules=self.rules,
            workflow=given["workflow"],
            at=given["at"],
            amount=given["amount"],
            currency=given["currency"],
            recipient=given["recipient"],
            initiator_id=self.people.get(given["initiator"].strip(), 0),
        )

    def _find_rules(self, given: dict[str, Any]) -> None:
        if given.get("text", "").strip():
            found = read(given["text"].replace("\r\n", "\n"))
            if isinstance(found, RuleSet):
                self.rules = found
                return
            for fault in found:
                self.add_error("text", fault.words)
            return
        if not given["policy"]:
            self.add_error("workflow", "Choose a workflow or a policy.")
            return
        known = in_force(given["policy"])
        if known is None:
            self.add_error(
                "policy",
                f'There is no policy "{given["policy"]}", so nobody could approve this. Write it first.',
            )
        else:
            self.rules = known.ruleset

    def _clean_money(self, given: dict[str, Any]) -> None:
        amount, currency = given.get("amount", "").strip(), given.get("currency", "").strip().upper()
        given["amount"], given["currency"] = None, ""
        if not amount and not currency:
            return
        try:
            money = Money.model_validate({"amount": amount, "currency": currency})
        except ValidationError as invalid:
            for place, sentence in problems_in(invalid):
                named = place if place in ("amount", "currency") else "amount"
                self.add_error(named, f"{sentence[:1].upper()}{sentence[1:]}.")
            return
        given["amount"], given["currency"] = Decimal(money.amount), str(money.currency)

    def _clean_at(self, given: dict[str, Any]) -> None:
        text, given["at"] = given.get("at", "").strip(), self.now
        if not text:
            return
        try:
            at = read_moment(text, self.zone)
        except NoMoment as none:
            self.add_error("at", str(none))
            return
        if at < self.now - timedelta(days=1) or at > self.now + FURTHEST:
            self.add_error("at", "Choose today or a later day: what held earlier stands on each slip.")
        given["at"] = max(at, self.now)


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page()
def try_out(request: TenantRequest, slug: str) -> HttpResponseBase:
    """The form; below it the answer where something was asked. A draft is posted, since it may be long."""
    with reading(request.tenant.pk):
        given = request.POST if request.method == "POST" else request.GET
        asked = request.method == "POST" or any(given.get(name) for name in ("workflow", "policy", "text"))
        form = TryForm(given if asked else None, now=request.now, zone=ZoneInfo(request.tenant.time_zone))
        context: dict[str, Any] = {"form": form, "known_people": sorted(form.people)}
        if form.rules_given and Role.ADMIN in request.roles:
            name = str(given.get("policy", ""))
            context |= {
                "may_write": True,
                "name": name,
                "base": newest(name) if name.isprintable() else None,
            }
        status = 200
        if asked and form.is_valid():
            question = form.question()
            context |= {"asked": question, "answer": simulate(question), "rules": told(question.rules)}
        elif asked:
            status = 422
        return TemplateResponse(request, "approvals/policy_try.html", context, status=status).render()
