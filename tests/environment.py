"""Loaded by pytest before Django's settings are: this process is a test (`-p tests.environment` in pyproject.toml)."""

import os

os.environ.setdefault("COUNTERFOIL_TESTING", "1")
