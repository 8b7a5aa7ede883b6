import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from config.secret import secret_key


def test_key_is_made_once_and_only_its_owner_may_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COUNTERFOIL_SECRET_KEY", raising=False)
    monkeypatch.setenv("COUNTERFOIL_VAR", str(tmp_path))
    with ThreadPoolExecutor(8) as threads:
        keys = set(threads.map(lambda _: secret_key(), range(32)))
    assert len(keys) == 1
    assert len(keys.pop()) >= 50
    assert [path.name for path in tmp_path.iterdir()] == ["secret_key"]
    assert stat.S_IMODE((tmp_path / "secret_key").stat().st_mode) == 0o600


def test_key_of_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_VAR", str(tmp_path))
    monkeypatch.setenv("COUNTERFOIL_SECRET_KEY", "given")
    assert secret_key() == "given"
    assert list(tmp_path.iterdir()) == []
