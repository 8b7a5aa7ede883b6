"""Django's secret key: from the environment, or made once for this installation."""

import os
import secrets
from pathlib import Path

from config.var import var_file


def secret_key() -> str:
    """COUNTERFOIL_SECRET_KEY, or the content of `var/secret_key`, which is made when it is missing."""
    if key := os.environ.get("COUNTERFOIL_SECRET_KEY"):
        return key
    path = var_file("secret_key")
    if not path.exists():
        _make_once(path)
    return path.read_text(encoding="ascii").strip()


def _make_once(path: Path) -> None:
    # Written aside and linked into place: two processes that start together end with one key, and nobody
    # ever reads half of one.
    aside = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(secrets.token_urlsafe(50))
    try:
        os.link(aside, path)
    except FileExistsError:
        pass
    finally:
        aside.unlink()
