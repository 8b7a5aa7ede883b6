"""How a receiver's requests are authenticated, as part of its contract: signatures, tokens, certificates.

None of it is frozen or signed by an approver: it is made at the moment of sending, and says who asks, not what is asked.
Secrets are named, never written.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from access.addresses import AddressRefused, well_formed
from dispatch.secrets import RECEIVERS

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
SIGNED = ("body", "timestamp", "method", "path", "operation_key")
IN_VALUE = ("signature", "timestamp")
PLACE = re.compile(r"\{([a-z_]+)\}")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _of_receivers(reference: str) -> str:
    if not RECEIVERS.allow(reference):
        raise ValueError(f"a secret is named as {RECEIVERS.forms}, never written here")
    return reference


def is_header(name: str) -> bool:
    """Whether a header may be called so."""
    return _HEADER.fullmatch(name) is not None


def _header(name: str) -> str:
    if not is_header(name):
        raise ValueError(f"{name!r} is no header's name")
    return name


Reference = Annotated[str, AfterValidator(_of_receivers)]
HeaderName = Annotated[str, AfterValidator(_header)]


class Signing(_Frozen):
    """An HMAC in a header. `signs`: what is signed; `value`: how the header is written."""

    secret_reference: Reference
    header: HeaderName = "X-Signature"
    algorithm: Literal["sha256", "sha512"] = "sha256"
    encoding: Literal["hex", "base64"] = "hex"
    signs: str = "{body}"
    value: str = "{signature}"
    timestamp_header: HeaderName | Literal[""] = ""

    @model_validator(mode="after")
    def _signs_what_is_sent(self) -> Self:
        for template, known in ((self.signs, SIGNED), (self.value, IN_VALUE)):
            for name in PLACE.findall(template):
                if name not in known:
                    raise ValueError(f"{{{name}}} cannot stand there; there are {', '.join(known)}")
        if "{body}" not in self.signs or "{signature}" not in self.value:
            raise ValueError("what is signed has {body} in it, and what is sent {signature}")
        return self


class OAuth(_Frozen):
    """A token by client credentials (RFC 6749, 4.4). The client's secret is the receiver's own."""

    token_url: str
    client_id: Annotated[str, Field(min_length=1, max_length=300)]
    scope: Annotated[str, Field(max_length=500)] = ""
    audience: Annotated[str, Field(max_length=500)] = ""
    client_auth: Literal["basic", "body"] = "basic"

    @model_validator(mode="after")
    def _has_an_address(self) -> Self:
        try:
            well_formed(self.token_url)
        except AddressRefused as refused:
            raise ValueError(str(refused)) from None
        return self


class Tls(_Frozen):
    """A client's certificate and key, and whose certificates are believed, each as the path of a PEM file.

    A path is named as secrets are: an environment variable that holds it, or the file itself. `key`: where it is not in
    the certificate's own file. `authorities`: instead of the public ones.
    """

    certificate: Reference | Literal[""] = ""
    key: Reference | Literal[""] = ""
    authorities: Reference | Literal[""] = ""
