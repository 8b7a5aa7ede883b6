"""Amazon's JSON services: the contract says what is sent, this class signs it as they want it.

    [project.entry-points."counterfoil.connectors"]
    dynamodb = "examples.connectors.amazon:DynamoDB"
    sqs-fifo = "examples.connectors.amazon:Queue"

Bytes, barrier, addresses and faults stay those of the careful client. A receiver's secret is "access key:secret key"; its region
stands in its address, as Amazon writes it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as Keys

from dispatch.classification import Outcome, Reading
from dispatch.comparison import Unreadable, read_json
from dispatch.connectors.http import HttpConnector
from dispatch.connectors.seam import Credentials, Sending
from dispatch.contracts import Contract
from dispatch.secrets import RECEIVERS
from dispatch.sights import Found, Sight
from dispatch.wire import Exchange, Request

JSON_1_0 = "application/x-amz-json-1.0"


class Amazon(HttpConnector):
    """One service; a class that derives from it names which."""

    service = ""

    def credentials(self, reference: str, contract: Contract) -> Credentials:
        plain = super().credentials("", contract)
        return replace(plain, client_secret=RECEIVERS.read(reference))

    def authenticate(
        self, request: Request, contract: Contract, credentials: Credentials, key: str, token: str
    ) -> Request:
        """Signature version 4 over method, address, headers and body, by the library of those who verify it."""
        access, _, secret = credentials.client_secret.partition(":")
        signed = AWSRequest(request.method, request.url, dict(request.headers), request.body)
        SigV4Auth(Keys(access, secret), self.service, self._region(request.url)).add_auth(signed)
        made = {n: v for n, v in signed.headers.items() if n not in request.headers}
        return replace(request, secret_headers=made)

    def _region(self, url: str) -> str:
        parts = (urlsplit(url).hostname or "").split(".")
        return parts[1] if parts[-1] == "com" and len(parts) > 3 else "us-east-1"


class Queue(Amazon):
    """SQS. A FIFO queue takes a deduplication id, and forgets it after five minutes."""

    service = "sqs"


class DynamoDB(Amazon):
    """A conditional put: the item's key is the operation's, and what is there already is not written again."""

    service = "dynamodb"

    def read(self, seen: Exchange, sending: Sending, now: datetime) -> Reading:
        there = _content(seen).get("Item") if seen.status == 400 else None
        if there is None:
            return super().read(seen, sending, now)
        if there != _sent_item(sending):
            return Reading(Outcome.KEY_MISMATCH, "another item is there under this key", blocked=True)
        words = "an earlier send of this key has written the item"
        return Reading(Outcome.APPLIED, words, receipt_id=sending.operation_key, replayed=True)

    def look_up(self, sending: Sending) -> Sight:
        """GetItem with a consistent read: it sees what was written before it was asked."""
        approved = json.loads(sending.request.body)
        (name,) = sending.contract.key_name.split(".")[1:2]
        question = {
            "TableName": approved["TableName"],
            "Key": {name: approved["Item"][name]},
            "ConsistentRead": True,
        }
        headers = {"Content-Type": JSON_1_0, "X-Amz-Target": "DynamoDB_20120810.GetItem"}
        asked = Request("POST", f"{sending.base_url.rstrip('/')}/", headers, json.dumps(question).encode())
        seen = self.ask(asked, sending.contract, sending.credentials)
        return _sight(seen, approved["Item"], sending.operation_key).of(asked, seen)


def _sight(seen: Exchange, approved: object, key: str) -> Sight:
    if seen.status != 200:
        return Sight(Found.UNCLEAR, f"answered {seen.status or seen.exception}")
    content = _content(seen)
    if "Item" not in content:
        nothing = Found.ABSENT if content == {} and seen.body else Found.UNCLEAR
        return Sight(nothing, "answered 200: nothing there")
    if content["Item"] != approved:
        return Sight(Found.DIFFERS, "there, but it is another item", key)
    return Sight(Found.APPLIED, "there, as approved", key)


def _content(seen: Exchange) -> dict[str, object]:
    try:
        return {"unreadable": seen.body_problem} if seen.body_problem else read_json(seen.body)
    except Unreadable as unreadable:
        return {"unreadable": str(unreadable)}


def _sent_item(sending: Sending) -> object:
    return json.loads(sending.request.body)["Item"]
