"""Loaded by pytest before Django's settings are: this process is a test (`-p tests.environment` in pyproject.toml)."""

import os
import sys

os.environ.setdefault("COUNTERFOIL_TESTING", "1")
os.environ.setdefault("COUNTERFOIL_INTERNAL_RECEIVERS", "*=127.0.0.1,*=localhost")

# The suite starts Python a hundred times and more: without byte code each would compile the product anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
