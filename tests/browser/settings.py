"""The product's settings as `make run` has them, for a server whose static files lie in a folder of the tests."""

import os

from config.settings import *  # noqa: F403

STATIC_ROOT = os.environ["COUNTERFOIL_TESTS_STATIC"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
"""Signing in costs a real hasher half a second each time, and these passwords protect nothing."""
