#!/usr/bin/env python
"""Django's command line. A database that cannot be used is one sentence and exit code 2, not a traceback."""

import os
import sys

WITHOUT_DATABASE = {
    "help",
    "version",
    "check",
    "collectstatic",
    "compilemessages",
    "diffsettings",
    "makemessages",
    "signing_key",
    "startworkflow",
    "verify_decision",
}
"""Commands that only load the settings: they neither need nor start a server."""


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    if not _needs_database(sys.argv[1:]):
        os.environ.setdefault("COUNTERFOIL_NO_DATABASE", "1")
    try:
        from django.core.management import execute_from_command_line
        from django.db.utils import OperationalError

        from config import database
    except ImportError as missing:
        print(f"{missing}: run `make run` or `make test` once, and use .venv/bin/python.", file=sys.stderr)
        return 2
    try:
        if not os.environ.get("COUNTERFOIL_NO_DATABASE"):
            database.check_server(database.login_url())
        try:
            execute_from_command_line(sys.argv)
        except OperationalError:
            # The server's fault or the statement's? If the server is gone, say that; a deadlock keeps its traceback.
            database.check_server(database.login_url())
            raise
    except database.DatabaseUnusable as unusable:
        print(unusable, file=sys.stderr)
        return 2
    return 0


def _needs_database(arguments: list[str]) -> bool:
    command = next((a for a in arguments if not a.startswith("-")), "help")
    if command == "check" and any(a.startswith("--database") for a in arguments):
        return True
    return command not in WITHOUT_DATABASE and not {"-h", "--help", "--version"} & set(arguments)


if __name__ == "__main__":
    sys.exit(main())
