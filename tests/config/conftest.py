import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from config import embedded
from tests.config.processes import has_stopped, until


@pytest.fixture
def var() -> Iterator[Path]:
    """A `var` of its own that the server's system user can enter (pytest's own folders are root's alone)."""
    yield from _own_var()


@pytest.fixture(scope="class")
def shared_server() -> Iterator[None]:
    """This process as a user of an embedded server that the tests of a class share."""
    with pytest.MonkeyPatch.context() as patch:
        for path in _own_var():
            _use_server(patch, path)
            yield
            embedded.leave_server()


def _own_var() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="cf-"))
    path.chmod(0o711)
    yield path
    until(lambda: has_stopped(path), what="the stop of the embedded server")
    shutil.rmtree(path)


@pytest.fixture
def own_server(var: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """This process as a user of an embedded server of its own."""
    _use_server(monkeypatch, var)
    yield var
    embedded.leave_server()


def _use_server(patch: pytest.MonkeyPatch, var: Path) -> None:
    patch.delenv("DATABASE_URL", raising=False)
    patch.delenv("COUNTERFOIL_NO_DATABASE", raising=False)
    patch.setenv("COUNTERFOIL_VAR", str(var))
    patch.setattr(embedded, "_hold", None)
    patch.setattr(embedded, "_keeper", None)
    embedded.use_server()
