"""`manage.py policy`: the approval policies of an organisation, read, compared, written and tried out."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from pydantic import ValidationError

from access import authority
from access.directory import directory
from access.doors import find_tenant
from access.models import Person, Tenant
from access.refusals import Refused
from access.roles import Role
from access.tenancy import reading
from approvals.comparing import RuleDifference, compare
from approvals.facts import in_force, newest
from approvals.foreseeing import foresee
from approvals.governing.moments import NoMoment, read_moment
from approvals.governing.queries import PolicyRow, installed, newest_policies
from approvals.models import Policy
from approvals.names_gone import warnings
from approvals.policies import check_rules, end_policy, write_policy
from approvals.policy_text import read
from approvals.policy_text import write as text_of
from approvals.ruleset import Money, RuleSet
from approvals.simulating import Answer, Question, simulate
from approvals.telling import told
from workflows.wording import problems_in

BLOCKED = 1


class Command(BaseCommand):
    help = "List, show, compare, write and end approval policies, and ask one who could approve something."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        listed = verbs.add_parser("list", help="every policy in force, in a line")
        show = verbs.add_parser("show", help="one in words; --text as it is written")
        pair = verbs.add_parser("compare", help="two revisions, rule by rule; exit code 1 where they differ")
        write = verbs.add_parser(
            "write", help="what a file would change and do; with --yes --as it is written"
        )
        end = verbs.add_parser(
            "end", help="an end to one that no workflow names: nothing more is asked under it"
        )
        trial = verbs.add_parser("simulate", help="who could approve it; exit code 1 where nobody could")
        for sub in (listed, show, pair, write, end, trial):
            sub.add_argument("tenant", help="the organisation, as it stands in addresses")
        for sub in (show, pair, write, end):
            sub.add_argument("policy", help="the policy's name")
        show.add_argument("--revision", type=int, metavar="N", help="one that is no longer in force")
        show.add_argument("--text", action="store_true", help="as a file that `write` takes")
        pair.add_argument("before", type=int, help="a revision")
        pair.add_argument("after", type=int, nargs="?", help="another; without it the one in force")
        write.add_argument("file", help="a TOML file, or - for what comes in")
        write.add_argument(
            "--expected", type=int, metavar="N", help="the revision that it was made from, 0 for none"
        )
        write.add_argument("--yes", action="store_true", help="write it")
        write.add_argument("--as", dest="handle", metavar="HANDLE", help="the admin who writes it")
        end.add_argument("--reason", required=True, help="why, kept with it")
        end.add_argument("--as", dest="handle", metavar="HANDLE", required=True, help="the admin who ends it")
        trial.add_argument("--workflow", default="", help="asks its policy, and counts for its limits")
        trial.add_argument("--policy", default="", help="another policy than the workflow's")
        trial.add_argument("--draft", metavar="FILE", help="rules that nobody has written yet")
        trial.add_argument(
            "--amount", default="", help="with its currency, as in --amount 12400.00 EUR", nargs=2
        )
        trial.add_argument("--recipient", default="")
        trial.add_argument("--initiator", default="", metavar="HANDLE", help="who would have started it")
        trial.add_argument("--at", default="", metavar="TIME", help="asked then, by the organisation's clock")

    def handle(self, *args: Any, verb: str, tenant: str, **given: Any) -> None:
        found = find_tenant(tenant)
        if found is None:
            raise CommandError(f"There is no organisation {tenant}.")
        try:
            code = getattr(self, f"_{verb}")(found, given)
        except Refused as refused:
            raise CommandError(str(refused)) from refused
        if code:
            sys.exit(code)

    def _list(self, tenant: Tenant, given: dict[str, Any]) -> int:
        after, number = "", 0
        with reading(tenant.pk):
            while True:
                page = newest_policies(after)
                for row in page.rows:
                    number += 1
                    self.stdout.write(_line(row))
                if not page.next_after:
                    break
                after = page.next_after
        if not number:
            self.stdout.write(f"{tenant.slug} has no policy.")
        return 0

    def _show(self, tenant: Tenant, given: dict[str, Any]) -> int:
        with reading(tenant.pk):
            policy = _policy(given["policy"], given["revision"], ended=True)
            if given["text"]:
                self.stdout.write(text_of(policy.ruleset), ending="")
                return 0
            self.stdout.write(f"{policy.name}, revision {policy.revision}, by {policy.created_by}:")
            if policy.end_reason:
                self.stdout.write(f"It was ended: {policy.end_reason}")
            self._tell(policy.ruleset)
            for warning in () if policy.end_reason else warnings(policy.ruleset):
                self.stdout.write(f"Warning: {warning}")
        return 0

    def _compare(self, tenant: Tenant, given: dict[str, Any]) -> int:
        with reading(tenant.pk):
            before, after = (
                _policy(given["policy"], given["before"]),
                _policy(given["policy"], given["after"]),
            )
        differences = compare(before.ruleset, after.ruleset)
        self.stdout.write(f"{before.name}, revision {before.revision} and {after.revision}:")
        self._differences(differences)
        return 1 if differences else 0

    def _write(self, tenant: Tenant, given: dict[str, Any]) -> int:
        rules, name = _rules(given["file"]), given["policy"]
        with reading(tenant.pk):
            check_rules(name, rules)
            before = newest(name)
            revision = before.revision if before else 0
            if given["expected"] is not None and given["expected"] != revision:
                raise CommandError(
                    f"Revision {revision} of {name} is {_stands(before)}, not {given['expected']}. Nothing was written."
                )
            if before is not None and not before.end_reason and before.ruleset == rules:
                self.stdout.write(f"Revision {revision} of {name} says this already.")
                return 0
            self._differences(compare(before.ruleset, rules)) if before else self._tell(rules)
            if before is not None and before.end_reason:
                self.stdout.write(
                    f"{before.created_by} ended it: {before.end_reason} It would be in force again."
                )
            self.stdout.write(foresee(name, rules).summary)
            for warning in warnings(rules):
                self.stdout.write(f"Warning: {warning}")
            if not given["yes"]:
                self.stdout.write("Nothing was written. With --yes --as ADMIN it is.")
                return 0
            actor = authority.require(_admin(tenant, given["handle"], "writes"), Role.ADMIN)
        made = write_policy(
            tenant_id=tenant.pk,
            name=name,
            rules=rules,
            created_by=actor,
            now=timezone.now(),
            expected=revision,
        )
        self.stdout.write(f"Revision {made.revision} of {name} is written and in force.")
        return 0

    def _end(self, tenant: Tenant, given: dict[str, Any]) -> int:
        made = end_policy(
            tenant_id=tenant.pk,
            name=given["policy"],
            reason=given["reason"],
            person_id=_admin(tenant, given["handle"], "ends"),
            now=timezone.now(),
        )
        self.stdout.write(f"{made.name} is ended, by its revision {made.revision}.")
        return 0

    def _simulate(self, tenant: Tenant, given: dict[str, Any]) -> int:
        zone = ZoneInfo(tenant.time_zone)
        with reading(tenant.pk):
            question = _question(given, zone)
            answer = simulate(question)
        self._answer(answer, zone)
        return BLOCKED if answer.blocked or answer.over else 0

    def _tell(self, rules: RuleSet) -> None:
        for one in told(rules):
            for number, sentence in enumerate(one.sentences):
                self.stdout.write(f"  {'' if number else one.rule:<12}{sentence}")

    def _differences(self, differences: list[RuleDifference]) -> None:
        for one in differences:
            self.stdout.write(f"  {one.rule}")
            for sign, sentences in (("-", one.before), ("+", one.after)):
                for sentence in sentences:
                    self.stdout.write(f"    {sign} {sentence}")
        if not differences:
            self.stdout.write("  Both say the same.")

    def _answer(self, answer: Answer, zone: ZoneInfo) -> None:
        if answer.waived:
            self.stdout.write(answer.over or "Nobody is asked: the policy itself approves.")
        for level in answer.levels:
            place = f"{level.number}. " if len(answer.levels) > 1 else ""
            self.stdout.write(f"{place}{level.asks}:")
            for one in level.people:
                said = (
                    f"could sign{f' for {one.signs_for}' if one.signs_for else ''}."
                    if one.can
                    else one.why_not
                )
                later = f" Could sign {one.later}." if one.later else ""
                self.stdout.write(f"  {one.handle}{', out of office' if one.away else ''}: {said}{later}")
        if answer.levels:
            self.stdout.write(
                "The people who are at work could not complete it."
                if answer.blocked
                else "The people who are at work can complete it."
            )
            self.stdout.write(
                f"{'The password is asked for again' if answer.password else 'No password is asked for'};"
                f" {'it may be approved together with others' if answer.together else 'it is approved by itself'}."
            )
        for moment in answer.moments:
            left_out = f" Left out: {moment.left_out}." if moment.left_out else ""
            self.stdout.write(f"{_clock(moment.at, zone)}: {moment.what}.{left_out}")
        self.stdout.write(f"{_clock(answer.expires_at, zone)}: it expires.")


def _line(row: PolicyRow) -> str:
    policy = row.policy
    open_ = f"; {row.open} open" if row.open else ""
    said = f"ended by {policy.created_by}, {policy.end_reason}" if policy.end_reason else row.line
    return f"{policy.name}, revision {policy.revision}: {said}{open_}"


def _stands(policy: Policy | None) -> str:
    return "the one that ended it" if policy is not None and policy.end_reason else "in force"


def _admin(tenant: Tenant, handle: str | None, does: str) -> int:
    person = Person.objects.filter(username=handle or "").first()
    if person is None:
        raise CommandError(f"Say with --as which admin of {tenant.slug} {does} it.")
    return person.pk


def _policy(name: str, revision: int | None, *, ended: bool = False) -> Policy:
    if revision:
        found = Policy.objects.filter(name=name, revision=revision).first()
    else:
        found = newest(name) if ended else in_force(name)
    if found is None:
        which = f"revision {revision} of a policy" if revision else "policy"
        raise CommandError(f"There is no {which} {name} here.")
    return found


def _rules(file: str) -> RuleSet:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except OSError as unreadable:
        raise CommandError(f"{file} cannot be read: {unreadable.strerror}.") from unreadable
    except UnicodeDecodeError as broken:
        raise CommandError(f"{file} is not UTF-8.") from broken
    found = read(text)
    if isinstance(found, RuleSet):
        return found
    raise CommandError("\n".join(fault.words for fault in found))


def _question(given: dict[str, Any], zone: ZoneInfo) -> Question:
    workflows = {w.name: w for w in installed()}
    if given["workflow"] and given["workflow"] not in workflows:
        raise CommandError(
            f"There is no workflow {given['workflow']}. There are: {', '.join(sorted(workflows))}."
        )
    name = given["policy"] or (workflows[given["workflow"]].approval_policy if given["workflow"] else "")
    if not name and not given["draft"]:
        raise CommandError("Say --workflow, --policy or --draft.")
    rules = _rules(given["draft"]) if given["draft"] else _policy(name, None).ruleset
    people = {m.handle: m.person_id for m in directory().members.values()}
    if given["initiator"] and given["initiator"] not in people:
        raise CommandError(f"There is nobody called {given['initiator']} here.")
    money = _money(*given["amount"]) if given["amount"] else None
    return Question(
        policy=name,
        rules=rules,
        workflow=given["workflow"],
        at=_at(given["at"], zone),
        amount=money.amount if money else None,
        currency=money.currency if money else "",
        recipient=given["recipient"],
        initiator_id=people.get(given["initiator"], 0),
    )


def _money(amount: str, currency: str) -> Money:
    try:
        return Money.model_validate({"amount": amount, "currency": currency})
    except ValidationError as invalid:
        place, sentence = next(iter(problems_in(invalid)))
        raise CommandError(
            f"--amount {amount} {currency}: {place} {sentence}.".replace(":  ", ": ")
        ) from invalid


def _at(text: str, zone: ZoneInfo) -> datetime:
    if not text:
        return timezone.now()
    try:
        return read_moment(text, zone)
    except NoMoment as none:
        raise CommandError(f"--at {text}: {none}") from none


def _clock(at: datetime, zone: ZoneInfo) -> str:
    return f"{at.astimezone(zone):%a %-d %b %Y, %H:%M %Z}"
