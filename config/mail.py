"""How the mail server is spoken to: with TLS from the first byte, by STARTTLS, or without."""

from __future__ import annotations

PORTS = {"none": 25, "starttls": 587, "implicit": 465}


def security(tls: str, port: str) -> tuple[bool, bool, int]:
    """STARTTLS or not, TLS from the first byte or not, and the port: the usual one where none is named."""
    if tls not in PORTS:
        raise ValueError(f"COUNTERFOIL_EMAIL_TLS is {tls!r}; it is one of: {', '.join(PORTS)}.")
    return tls == "starttls", tls == "implicit", int(port) if port else PORTS[tls]
