"""`manage.py signing_key`: the public key that verifies what this installation exports."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from approvals.proof.signing import BadKey, fingerprint, public_key


class Command(BaseCommand):
    help = (
        "Print the public key that exported decisions are verified with, and its fingerprint to compare by."
    )
    requires_system_checks: tuple[str, ...] = ()

    def handle(self, *args: Any, **options: Any) -> None:
        key = own_public_key()
        self.stdout.write(key)
        self.stdout.write(f"Fingerprint: {fingerprint(key)}")


def own_public_key() -> str:
    """This installation's public key. Raises CommandError where the secret one is none."""
    try:
        return public_key(settings.COUNTERFOIL_SIGNING_KEY)
    except BadKey as broken:
        raise CommandError(f"COUNTERFOIL_SIGNING_KEY, or var/signing_key: {broken}") from broken
