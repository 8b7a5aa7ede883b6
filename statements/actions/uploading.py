"""Keeping a receiver's file as a statement, before anybody says how it is to be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import IntegrityError

from access import authority
from access.refusals import Conflict, Unprocessable
from access.roles import Role
from access.tenancy import acting, reading
from access.tenant_journal import record
from dispatch.locks import NoSuchReceiver
from dispatch.models import Receiver
from statements import keeping
from statements.decoding import Survey
from statements.formats import evidence_of, format_of
from statements.models import Format, Statement, StatementState
from workflows.authoring.files import FileKind
from workflows.file_kinds import clean_name

Content = Callable[[], Iterable[bytes]]
"""Gives the bytes of a file in chunks, from its start each time it is called."""


class FileUnusable(Unprocessable):
    """What was uploaded is no statement; the message says why."""


class FileTooLarge(FileUnusable):
    """Over the installation's limit for statements."""


class KnownFile(Conflict):
    """The same file is here already; the message says as what."""


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The statement that the file is now."""

    statement_id: int
    format: str


def upload_statement(
    *, tenant_id: int, receiver_id: int, account: str, name: str, content: Content, person_id: int, now: datetime
) -> Uploaded:  # fmt: skip
    """Keep a file for an account at a receiver, all of it or nothing, in one transaction as long as its bytes take.

    The same file for the same account, unless it was discarded, is KnownFile. Operators only.
    Raises NotPermitted, NoSuchReceiver, FileUnusable, FileTooLarge.
    """
    survey = _survey(content)
    decoding = survey.decoding()
    form = format_of(survey.head, decoding.encoding)
    _check_size(survey, form)
    account = " ".join(account.split())
    try:
        with acting(tenant_id):
            actor = authority.require(person_id, Role.OPERATOR)
            if not Receiver.objects.filter(pk=receiver_id).exists():
                raise NoSuchReceiver(f"There is no receiver {receiver_id} here.")
            _check_new(receiver_id, account, survey.digest)
            statement = Statement.objects.create(
                tenant_id=tenant_id,
                receiver_id=receiver_id,
                account=account,
                name=clean_name(name, FileKind.TEXT),
                digest=survey.digest,
                size=survey.size,
                format=form.value,
                encoding=decoding.encoding,
                evidence=evidence_of(form, decoding),
                uploaded_by_id=person_id,
                uploaded_at=now,
                swept_at=now,
            )
            keeping.keep(statement, keeping.parts_of(content()))
            evidence = {
                "statement": statement.pk,
                "receiver": receiver_id,
                "account": account,
                "digest": survey.digest,
                "bytes": survey.size,
            }
            record(event="statement.uploaded", actor=actor, evidence=evidence)
            return Uploaded(statement.pk, statement.format)
    except IntegrityError as error:
        if "one_statement_a_file" not in str(error):
            raise
        with reading(tenant_id):  # somebody else has uploaded it at this moment
            _check_new(receiver_id, account, survey.digest)
        raise


def too_large() -> FileTooLarge:
    """The refusal of a file over the limit, for whoever need not read it to know."""
    limit = settings.COUNTERFOIL_LARGEST_STATEMENT
    return FileTooLarge(f"The file is larger than {limit:,} bytes; at most that is taken as a statement.")


def _survey(content: Content) -> Survey:
    survey = Survey()
    for chunk in content():
        survey.take(chunk)
        if survey.size > settings.COUNTERFOIL_LARGEST_STATEMENT:
            raise too_large()
    if not survey.size:
        raise FileUnusable("The file is empty.")
    return survey


def _check_size(survey: Survey, form: Format) -> None:
    """A table is read in batches, the other formats as a whole."""
    limit = settings.COUNTERFOIL_LARGEST_FILE
    if form is not Format.CSV and survey.size > limit:
        raise FileTooLarge(
            f"The file is larger than {limit:,} bytes; at most that is taken as {form.label}. "
            "Ask for it in parts, or as a table."
        )


def _check_new(receiver_id: int, account: str, digest: str) -> None:
    known = Statement.objects.filter(receiver_id=receiver_id, account=account, digest=digest)
    for found in known.exclude(state=StatementState.DISCARDED).select_related("uploaded_by"):
        raise KnownFile(
            f"{found.uploaded_by.username} has uploaded this very file already: it is {found.label}, {found.state}."
        )
