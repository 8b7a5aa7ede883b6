"""Receivers that others wrote, run as processes: localstripe, and moto's server for DynamoDB and SQS."""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.support import eventually

SIGNED = (
    "AWS4-HMAC-SHA256 Credential=AKIA/20260101/us-east-1/{}/aws4_request, SignedHeaders=host, Signature=0"
)


@dataclass(frozen=True)
class Stripe:
    """A localstripe. `key`: what its accounts are told apart by; it takes any."""

    url: str
    key: str = "sk_test_counterfoil"

    def ask(self, method: str, path: str, **data: str) -> Any:
        """Past the connector, as the test's own eye."""
        return httpx.request(
            method, f"{self.url}{path}", auth=(self.key, ""), params=data, trust_env=False
        ).json()

    def products(self, record: str) -> int:
        return sum(
            p["metadata"] == {"record": record} for p in self.ask("GET", "/v1/products", limit="100")["data"]
        )

    def customers(self, record: str) -> int:
        found = self.ask("GET", "/v1/customers", limit="100")["data"]
        return sum(c["description"] == record for c in found)


@dataclass(frozen=True)
class Amazon:
    """A moto server with one table."""

    url: str
    table: str = "counterfoil"

    def ask(self, service: str, action: str, **body: Any) -> Any:
        version = {"dynamodb": "DynamoDB_20120810", "sqs": "AmazonSQS"}[service]
        headers = {
            "Authorization": SIGNED.format(service), "X-Amz-Target": f"{version}.{action}",
            "Content-Type": "application/x-amz-json-1.0",
        }  # fmt: skip
        return httpx.post(f"{self.url}/", headers=headers, content=json.dumps(body), trust_env=False).json()

    def items(self, record: str) -> int:
        return sum(
            i["record"]["S"] == record for i in self.ask("dynamodb", "Scan", TableName=self.table)["Items"]
        )

    def queue(self) -> str:
        """The address of a FIFO queue of its own."""
        name = f"effects-{secrets.token_hex(4)}.fifo"
        made = self.ask("sqs", "CreateQueue", QueueName=name, Attributes={"FifoQueue": "true"})
        return str(made["QueueUrl"])

    def messages(self, queue: str) -> int:
        names = ["ApproximateNumberOfMessages"]
        told = self.ask("sqs", "GetQueueAttributes", QueueUrl=queue, AttributeNames=names)
        return int(told["Attributes"][names[0]])

    def make(self) -> None:
        self.ask(
            "dynamodb", "CreateTable", TableName=self.table, BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        )  # fmt: skip


@contextmanager
def localstripe() -> Iterator[Stripe]:
    with _running(lambda port: ["-m", "localstripe", "--port", str(port), "--from-scratch"]) as url:
        yield Stripe(url)


@contextmanager
def moto(*, remembers: float = 300) -> Iterator[Amazon]:
    """`remembers`: for how many seconds its queue knows an id; its own five minutes unless a test cannot wait."""
    start = (
        f"import moto.sqs.models as m; m.DEDUPLICATION_TIME_IN_SECONDS = {remembers};"
        " from moto.server import main; import sys; main(sys.argv[1:])"
    )
    with _running(lambda port: ["-c", start, "-H", "127.0.0.1", "-p", str(port)]) as url:
        made = Amazon(url)
        made.make()
        yield made


@contextmanager
def _running(arguments: Any) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, *arguments(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        eventually(lambda: _listens(port, process), seconds=30)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def _listens(port: int, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "it ended before it listened"
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0
