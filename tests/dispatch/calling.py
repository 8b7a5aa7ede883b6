"""Callbacks as a receiver sends them, signed here by hand and not by what is tested."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from access.tenancy import reading
from dispatch.callback_terms import Callbacks, Progress
from dispatch.callbacks.receiving import receive_callback
from dispatch.callbacks.taking import Taken
from dispatch.models import Callback, Operation, Receiver
from tests.dispatch.world import BODY, Dispatching
from workflows.models import Job

SECRET = "whsec_" + base64.b64encode(b"a secret of thirty-two bytes....").decode()
OTHER = "whsec_" + base64.b64encode(b"another secret of 32 bytes......").decode()
REFERENCE = "env:COUNTERFOIL_RECEIVER_CALLS"
PROGRESS = Progress(path="status", applied=("done",), failed=("rejected",), pending=("processing",))


def by_key(**changes: Any) -> Callbacks:
    """Standard Webhooks, our key, and everything that was sent repeated."""
    values: dict[str, Any] = {
        "secrets": (REFERENCE,), "progress": PROGRESS, "key_path": "operation_key", "receipt_path": "id",
        "record_path": "record", "echo_path": "fields",
    }  # fmt: skip
    return Callbacks(**{**values, **changes})


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_RECEIVER_CALLS", SECRET)


def told(operation: Operation, status: str = "done", **changes: Any) -> bytes:
    """What the receiver says of an operation."""
    content = {
        "operation_key": operation.operation_key,
        "id": "A-1",
        "status": status,
        "record": operation.record,
    }
    return json.dumps({**content, "fields": BODY, **changes}).encode()


def signed(body: bytes, message_id: str = "m-1", *, secret: str = SECRET, age: float = 0) -> dict[str, str]:
    """The headers of Standard Webhooks."""
    at = str(int(time.time() - age))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{message_id}.{at}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": at,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def call(d: Dispatching, body: bytes, message_id: str = "m-1") -> Taken:
    """A callback that is the receiver's."""
    return receive_callback(
        public_id=public_id(d), body=body, headers=signed(body, message_id), now=timezone.now()
    )


def public_id(d: Dispatching) -> UUID:
    with reading(d.tenant_id):
        return Receiver.objects.get(name="erp").public_id


def kept(d: Dispatching) -> list[tuple[str, str, str]]:
    """What came, in order: id, finding and the key that it names."""
    with reading(d.tenant_id):
        rows = Callback.objects.order_by("pk")
        return list(rows.values_list("message_id", "finding", "operation_key"))


def stand(d: Dispatching, job: Job) -> tuple[str, list[str], list[str]]:
    """The job, its operations, and what callbacks were found to say."""
    seen = [o.finding for o in d.observations(job) if o.kind == "callback"]
    return d.job_state(job), [o.state for o in d.operations(job)], seen
