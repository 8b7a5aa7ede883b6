"""Secrets that rows refer to: in the environment or in a file, read when they are needed, never stored.

    receivers = References("RECEIVER")
    receivers.read("env:COUNTERFOIL_RECEIVER_ERP")

A reference names only variables and files whose names begin with its own family: a row could otherwise have the database's
password sent somewhere, or the secret of another kind, which another organisation may own.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from web.redaction import remember

FOLDER = "/run/secrets/"


class SecretMissing(Exception):
    """The reference names nothing that this process can read."""


@dataclass(frozen=True, slots=True)
class References:
    """The references of one family: `env:COUNTERFOIL_<family>_…` and `file:/run/secrets/counterfoil_<family>_…`."""

    family: str

    def allow(self, reference: str) -> bool:
        """Whether it is a reference of this family."""
        variable = rf"env:COUNTERFOIL_{self.family}_[A-Z0-9_]{{1,80}}"
        file = rf"file:{FOLDER}counterfoil_{self.family.lower()}_[A-Za-z0-9_.-]{{1,80}}"
        return re.fullmatch(f"{variable}|{file}", reference) is not None

    def read(self, reference: str) -> str:
        """The secret without white space around it, or SecretMissing."""
        if not self.allow(reference):
            raise SecretMissing(f"{reference} is no reference to a secret of this kind.")
        kind, _, name = reference.partition(":")
        try:
            value = os.environ.get(name, "") if kind == "env" else Path(name).read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            value = ""
        if not value.strip():
            raise SecretMissing(f"{reference} is not set here.")
        remember(value.strip())
        return value.strip()

    def path(self, reference: str) -> str:
        """The file that a reference leads to: the one it names, or the one whose path its variable holds. Or SecretMissing."""
        if not self.allow(reference):
            raise SecretMissing(f"{reference} is no reference to a file of this kind.")
        kind, _, name = reference.partition(":")
        file = name if kind == "file" else os.environ.get(name, "").strip()
        if not file or not os.access(file, os.R_OK):
            raise SecretMissing(f"{reference} leads to no file that can be read here.")
        return file

    @property
    def forms(self) -> str:
        """How such a reference is written, for sentences."""
        return f"env:COUNTERFOIL_{self.family}_… or file:{FOLDER}counterfoil_{self.family.lower()}_…"
