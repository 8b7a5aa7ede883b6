"""What a process that no management command starts looks at before it serves: the web's."""

from __future__ import annotations

import logging

from django.core.checks import Error
from django.db import DataError, OperationalError, ProgrammingError

from workflows import checks, known

log = logging.getLogger(__name__)


def refuse_unclear_definitions() -> None:
    """Write down what is loaded here. Exits with sentences where a revision is defined twice, unclear or changed.

    A database that is away or not set up yet is waited for by others; then each is written down when a job pins it.
    """
    unclear = [m.msg for m in checks.revisions_are_clear() if isinstance(m, Error)]
    if unclear:
        raise SystemExit("\n".join(unclear))
    try:
        known.remember()
    except known.DefinitionChanged as changed:
        raise SystemExit(str(changed)) from changed
    except (OperationalError, ProgrammingError, DataError) as error:
        log.warning("the revisions of workflows are not compared yet: %s", " ".join(str(error).split())[:200])
