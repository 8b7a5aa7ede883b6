"""The installation's own secrets: from the environment, or made once and kept in `var`."""

import base64
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from config.var import var_file


def secret_key() -> str:
    """COUNTERFOIL_SECRET_KEY, or the content of `var/secret_key`, which is made when it is missing."""
    if key := os.environ.get("COUNTERFOIL_SECRET_KEY"):
        return key
    return _kept("secret_key", lambda: secrets.token_urlsafe(50))


def signing_key() -> str:
    """COUNTERFOIL_SIGNING_KEY (64 hexadecimal digits), or the content of `var/signing_key`, made when it is missing."""
    set_here = os.environ.get("COUNTERFOIL_SIGNING_KEY", "").strip().lower()
    return set_here or _kept("signing_key", lambda: secrets.token_hex(32))


def sample_webhook_secret() -> str:
    """COUNTERFOIL_WEBHOOK_SAMPLE, or the content of `var/sample-webhook-secret`: signs what the sample's endpoint is told."""
    return os.environ.get("COUNTERFOIL_WEBHOOK_SAMPLE") or _kept("sample-webhook-secret", _webhook_secret)


def sample_callback_secret() -> str:
    """COUNTERFOIL_RECEIVER_ERP_CALLBACKS, or the content of `var/sample-callback-secret`: the sample's ERP signs with it."""
    return os.environ.get("COUNTERFOIL_RECEIVER_ERP_CALLBACKS") or _kept(
        "sample-callback-secret", _webhook_secret
    )


def _webhook_secret() -> str:
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


def _kept(name: str, make: Callable[[], str]) -> str:
    path = var_file(name)
    if not path.exists():
        _make_once(path, make())
    return path.read_text(encoding="ascii").strip()


def _make_once(path: Path, content: str) -> None:
    # Written aside and linked into place: two processes that start together end with one key, and nobody
    # ever reads half of one.
    aside = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(content)
    try:
        os.link(aside, path)
    except FileExistsError:
        pass
    finally:
        aside.unlink()
