"""`manage.py check_receiver TENANT RECEIVER --as ADMIN`: where a sandbox differs from its contract."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from functools import partial
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from access.management import named
from access.management.written import one_line
from access.refusals import Refused
from approvals.rendering import CannotRender
from dispatch.actions.check_receiver import Checkable, begin_check, checkable, still_allowed
from dispatch.checking.judging import Finding, Verdict
from dispatch.checking.probing import Probe, Stopped, Subject, made_up_record
from dispatch.connectors.registry import NoSuchConnector
from dispatch.secrets import SecretMissing

BODY = {"counterfoil_check": "one"}


class Command(BaseCommand):
    help = (
        "Send requests with keys of their own to a sandbox, and say where it differs from its contract. "
        "Says first what it will send. Ends with 1 where something differs."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("tenant", help="the organisation, as its addresses name it")
        parser.add_argument("receiver", help="the receiver's name")
        parser.add_argument("--as", dest="handle", required=True, help="the admin who checks it")
        parser.add_argument("--action", help="the action of its contract; without it the first by name")
        parser.add_argument("--record", help="the record that is written; without it one that nobody has")
        parser.add_argument(
            "--record-version", default="", help="its version, where the action changes one only"
        )
        parser.add_argument("--body", type=_json, default=BODY, metavar="JSON", help="what is sent")
        parser.add_argument("--other-body", type=_json, metavar="JSON", help="other bytes for the same key")
        parser.add_argument(
            "--refused-body",
            type=_json,
            metavar="JSON",
            help="a body that it refuses; shows whether errors are kept",
        )
        parser.add_argument(
            "--is-sandbox", action="store_true", help="it is a sandbox although its contract does not say so"
        )
        parser.add_argument("--yes", action="store_true", help="send without asking")

    def handle(self, *args: Any, tenant: str, receiver: str, handle: str, yes: bool, **options: Any) -> None:
        tenant_id, person_id = named.organisation(tenant).pk, named.person(handle).pk
        try:
            found = checkable(
                tenant_id=tenant_id, name=receiver, person_id=person_id, is_sandbox=options["is_sandbox"]
            )
            subject = _subject(found, options)
            probe = Probe(subject, partial(_allowed, tenant_id, receiver))
        except (Refused, CannotRender, SecretMissing, NoSuchConnector) as refused:
            raise CommandError(f"{refused} Nothing was sent.") from refused
        self._say(subject, probe)
        if not yes and input("Send these? Type yes: ").strip() != "yes":
            raise CommandError("Nothing was sent.")
        keys = list(dict.fromkeys(request.operation_key for _, request in probe.sends()))
        begin_check(
            tenant_id=tenant_id, place=found.place, action=subject.action, record=subject.record, keys=keys,
            person_id=person_id,
        )  # fmt: skip
        findings, stopped = _collected(probe)
        self.stdout.write("\n" + "\n".join(_table(findings)))
        if stopped:
            raise CommandError(f"The check was broken off: {stopped}.")
        differing = sum(f.verdict is Verdict.DIFFERS for f in findings)
        if differing:
            raise CommandError(
                f"{receiver} differs from version {found.place.contract_version} of its contract in {differing} of"
                f" {len(findings)} points."
            )

    def _say(self, subject: Subject, probe: Probe) -> None:
        place = subject.place
        self.stdout.write(
            f"To {place.name} at {place.base_url}, by version {place.contract_version} of its contract, this is sent:"
        )
        for number, (why, request) in enumerate(probe.sends(), start=1):
            key = (
                f"key {request.operation_key}, "
                if subject.contract.key_name or subject.contract.deduplicates
                else ""
            )
            self.stdout.write(
                f"{number:>2}. {request.method} {request.target} ({key}{why}): {request.body.decode()}"
            )
        if subject.contract.lookup is not None:
            self.stdout.write("    and look-ups, which change nothing.")


def _collected(probe: Probe) -> tuple[list[Finding], str]:
    """What was found, and why the check ended before its end, or ""."""
    findings: list[Finding] = []
    try:
        for finding in probe.run():
            findings += [finding]
    except Stopped as stopped:
        return findings, one_line(str(stopped))
    return findings, ""


def _subject(found: Checkable, options: dict[str, Any]) -> Subject:
    actions = sorted(found.contract.actions)
    action = options["action"] or actions[0]
    if action not in actions:
        raise CommandError(f"Its contract has no action {action}. There are: {', '.join(actions)}.")
    return Subject(
        contract=found.contract, place=found.place, credentials=found.credentials, action=action,
        record=options["record"] or made_up_record(), record_version=options["record_version"],
        body=options["body"], other=options["other_body"] or _changed(options["body"]), refused=options["refused_body"],
    )  # fmt: skip


def _changed(body: dict[str, Any]) -> dict[str, Any]:
    name = next((n for n, value in body.items() if isinstance(value, str)), None)
    if name is None:
        raise CommandError("Give --other-body: this body has no text that could be changed.")
    return {**body, name: f"{body[name]} 2"}


def _json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as broken:
        raise CommandError(f"{text[:60]} is not JSON: {broken}.") from broken
    if not isinstance(value, dict):
        raise CommandError(f"{text[:60]} is not a JSON object.")
    return value


def _allowed(tenant_id: int, receiver: str) -> None:
    # Two requests go out of threads of their own, whose connections nobody else would close.
    try:
        still_allowed(tenant_id, receiver)
    finally:
        connections.close_all()


def _table(findings: Sequence[Finding]) -> list[str]:
    head = ("", "verdict", "promised", "seen")
    rows = [head, *((f.name, f.verdict.value, f.promised, one_line(f.seen)) for f in findings)]
    widths = [max(len(row[n]) for row in rows) for n in range(4)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
