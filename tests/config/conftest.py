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
    path = Path(tempfile.mkdtemp(prefix="cf-"))
    path.chmod(0o711)
    yield path
    until(lambda: has_stopped(path), what="the stop of the embedded server")
    shutil.rmtree(path)


@pytest.fixture
def own_server(var: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """This process as a user of an embedded server of its own."""
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delenv("COUNTERFOIL_NO_DATABASE", raising=False)
    monkeypatch.setenv("COUNTERFOIL_VAR", str(var))
    monkeypatch.setattr(embedded, "_hold", None)
    monkeypatch.setattr(embedded, "_keeper", None)
    embedded.use_server()
    yield var
    embedded.leave_server()
