"""A shelf for each test."""

from __future__ import annotations

import pytest

from tests.statements.shelf import Shelf


@pytest.fixture
def shelf() -> Shelf:
    return Shelf.make()
