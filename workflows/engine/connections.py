"""Plain psycopg connections for the engine's own threads: never Django's, never shared, with keepalives."""

from __future__ import annotations

from typing import Any

import psycopg
from django.db import connection as django_connection

Connection = psycopg.Connection[tuple[Any, ...]]
ENGINE_ROLE = "counterfoil_engine"


def connect(purpose: str) -> Connection:
    """An autocommit connection as the engine's role, whose server notices within seconds that it is gone."""
    parameters = {
        k: v
        for k, v in django_connection.get_connection_params().items()
        if k in {"dbname", "user", "password", "host", "port", "connect_timeout"} or k.startswith("ssl")
    }
    connection: Connection = psycopg.connect(
        **parameters,
        autocommit=True,
        application_name=f"counterfoil {purpose}",
        keepalives=1,
        keepalives_idle=2,
        keepalives_interval=1,
        keepalives_count=3,
        tcp_user_timeout=10_000,
    )
    connection.execute(f"SET ROLE {ENGINE_ROLE}")
    connection.execute(
        "SET tcp_keepalives_idle = 2; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 3"
    )
    connection.execute("SET idle_in_transaction_session_timeout = '60s'")
    return connection
