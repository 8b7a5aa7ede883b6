"""Where this installation keeps what it writes: the database, logs, locks and its secret key."""

import os
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


def var_directory() -> Path:
    """`var/` of the project, or the folder that COUNTERFOIL_VAR names; made when it is missing."""
    path = Path(os.environ.get("COUNTERFOIL_VAR") or PROJECT / "var").absolute()
    path.mkdir(parents=True, exist_ok=True)
    return path


def var_file(*parts: str) -> Path:
    """A path below `var/`, its folder made when missing."""
    path = var_directory().joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
