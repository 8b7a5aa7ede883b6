"""Saying how a receiver's files are read, and having one read so."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError

from access import authority
from access.refusals import Conflict, Unprocessable
from access.roles import Actor, Role
from access.tenancy import acting, reading
from access.tenant_journal import record
from statements.locks import lock_statement
from statements.models import Format, Mapping, Statement, StatementState
from statements.terms import Terms
from workflows.locks import lock_name


class TooLate(Conflict):
    """The statement is applied or discarded; nothing about it changes any more."""


class MappingMissing(Unprocessable):
    """Nobody has said how the columns of a table are read."""


class AnotherIsUndecided(Conflict):
    """A statement of the same account is neither applied nor discarded: which lines are new depends on it."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The reading that workers do now. `version`: of the mapping; 0 where the format needs none."""

    reading: int
    version: int


def read_statement(
    *, tenant_id: int, statement_id: int, terms: Terms | None, person_id: int, now: datetime
) -> Begun:
    """Have a statement read, from its first byte, by this mapping; what an earlier reading brought is deleted first.

    A mapping that differs from the receiver's last one becomes its next version. Locks the statement. Repeating it
    reads once more. Raises NotPermitted, NoSuchStatement, TooLate, AnotherIsUndecided, MappingMissing.
    """
    try:
        with acting(tenant_id):
            actor = authority.require(person_id, Role.OPERATOR)
            statement = lock_statement(statement_id)
            check_open(statement)
            _check_alone(statement)
            mapping = _mapping(statement, terms, actor, now)
            return _begin(statement, mapping, actor)
    except IntegrityError as error:
        if "one_undecided_statement_an_account" not in str(error):
            raise
        with reading(tenant_id):  # the other one was begun at this moment
            _check_alone(Statement.objects.get(pk=statement_id))
        raise


def check_open(statement: Statement) -> None:
    """TooLate with who and when, unless the statement is still open."""
    if statement.state == StatementState.APPLIED:
        assert statement.applied_by is not None
        raise TooLate(f"{statement.applied_by.username} has applied {statement.label} already.")
    if statement.state == StatementState.DISCARDED:
        assert statement.discarded_by is not None
        raise TooLate(f"{statement.discarded_by.username} has discarded {statement.label}.")


def undecided_beside(statement: Statement) -> Statement | None:
    """The statement of the same account whose lines are not decided yet, if it is another."""
    others = Statement.objects.filter(receiver_id=statement.receiver_id, account=statement.account)
    others = others.exclude(pk=statement.pk).order_by("pk")
    undecided = others.filter(state__in=(StatementState.READING, StatementState.READ))
    return undecided.first() or others.filter(state=StatementState.DISCARDED, swept_at=None).first()


def _check_alone(statement: Statement) -> None:
    other = undecided_beside(statement)
    if other is None:
        return
    if other.state == StatementState.DISCARDED:
        raise AnotherIsUndecided(f"What was read of {other.label} is being deleted. Try again in a moment.")
    raise AnotherIsUndecided(
        f"{other.label} ({other.name}) of the same account is {other.state} and neither applied nor discarded. "
        "Decide on it first: which lines are new here depends on it."
    )


def _mapping(statement: Statement, terms: Terms | None, actor: Actor, now: datetime) -> Mapping | None:
    """The receiver's mapping that says this: the last version, or a new one."""
    if statement.format != Format.CSV:
        return None
    if terms is None:
        raise MappingMissing("A table is read by a mapping: say first how its columns are read.")
    kept = terms.model_dump(mode="json")
    lock_name("mapping", statement.tenant_id, str(statement.receiver_id))  # two at once write two versions
    last = Mapping.objects.filter(receiver_id=statement.receiver_id).order_by("-version").first()
    if last is not None and last.terms == kept:
        return last
    mapping = Mapping.objects.create(
        tenant_id=statement.tenant_id,
        receiver_id=statement.receiver_id,
        version=last.version + 1 if last else 1,
        terms=kept,
        written_by_id=actor.person_id,
        written_at=now,
    )
    evidence = {"receiver": statement.receiver_id, "version": mapping.version, "terms": kept}
    record(event="mapping.written", actor=actor, evidence=evidence)
    return mapping


def _begin(statement: Statement, mapping: Mapping | None, actor: Actor) -> Begun:
    again = statement.reading > 0
    reading_no = statement.reading + 1
    Statement.objects.filter(pk=statement.pk).update(
        state=StatementState.READING,
        mapping=mapping,
        reading=reading_no,
        position=0,
        rows=0,
        lines=0,
        repeated=0,
        errors=0,
        left_out=0,
        currency="",
        opening=None,
        closing=None,
        first_booked_on=None,
        last_booked_on=None,
        amount_in=0,
        amount_out=0,
        read_by_id=actor.person_id,
        read_at=None,
        worked_until=None,
        **({"swept_at": None} if again else {}),
    )
    version = mapping.version if mapping else 0
    evidence = {"statement": statement.pk, "reading": reading_no, "mapping": version}
    record(event="statement.read_begun", actor=actor, evidence=evidence)
    return Begun(reading_no, version)
