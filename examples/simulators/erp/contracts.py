"""What the receiver promises under each prefix.

keyed    `Idempotency-Key` is required and deduplicates within the retention; lookup by key within the retention.
lookup   `X-Operation-Key` is stored, never deduplicated; lookup by it is strongly consistent and for ever.
neither  both headers are ignored, and there is no lookup.
later    `Idempotency-Key` is required and deduplicates for ever; 202, done later, told by a callback; lookup by key.
"""

import re
from collections.abc import Callable
from typing import Any

from examples.simulators.database import Database
from examples.simulators.erp import ledger
from examples.simulators.erp.keys import KeyStore, fingerprint_of
from examples.simulators.erp.later import Later
from examples.simulators.erp.ledger import Write, apply_write
from examples.simulators.wire import Answer, Incoming, Refused, json_answer, parse_json_object, problem

CONTRACTS = ("keyed", "lookup", "neither", "later")
KEY_LENGTH = 255
COLLECTIONS = {"vendors": "vendor", "policies": "policy", "records": "record"}
DECIMAL = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,4})?")


class Contracts:
    def __init__(self, database: Database, retention: float, later: Later) -> None:
        self._database = database
        self._later = later
        self._keys = KeyStore(database, retention)

    def answer(self, request: Incoming, body: bytes, before_apply: Callable[[], None]) -> Answer:
        """`before_apply` runs when the key is reserved and nothing is applied yet. Raises `Refused`."""
        match request.method, request.segments:
            case "PUT", [contract, ("vendors" | "records") as collection, record] if record:
                return self._write(request, contract, COLLECTIONS[collection], record, body, before_apply)
            case "POST", [contract, "policies"]:
                return self._write(request, contract, "policy", "", body, before_apply)
            case "GET", [_, ("vendors" | "policies" | "records") as collection, record]:
                return self._read(COLLECTIONS[collection], record)
            case "GET", ["later", "operations", *rest] if rest:
                return self._later.look_up("/".join(rest))
            case "GET", ["keyed" | "lookup" as contract, "operations", *rest] if rest:
                return self._look_up(contract, "/".join(rest))
        return problem(404, "no_such_endpoint", f"{request.method} {request.path} is not offered here.")

    def _write(
        self,
        request: Incoming,
        contract: str,
        kind: str,
        record: str,
        body: bytes,
        before_apply: Callable[[], None],
    ) -> Answer:
        key = _operation_key(request, contract)
        fields = parse_json_object(body)
        if wrong := _wrong_amount(fields):
            raise Refused(problem(422, "amount_not_a_string", f"{wrong}: amounts are decimal strings."))
        if not isinstance(fields.get("suspended", False), bool):
            raise Refused(problem(422, "not_a_boolean", "suspended: true or false."))
        write = Write(contract, key, request.method, request.path, kind, record, body, fields)
        if contract == "later" and key is not None and record:
            fingerprint = fingerprint_of(write.method, write.path, write.body)
            return self._later.accept(write, fingerprint, request.header("X-Callback-Url") or "")
        if contract == "keyed" and key is not None:
            return self._apply_once(write, key, before_apply)
        before_apply()
        with self._database.transaction() as transaction:
            return _receipt(*apply_write(transaction, write))

    def _apply_once(self, write: Write, key: str, before_apply: Callable[[], None]) -> Answer:
        earlier = self._keys.reserve(key, fingerprint_of(write.method, write.path, write.body))
        if earlier is not None:
            return earlier
        try:
            before_apply()
            with self._database.transaction() as transaction:
                answer = _receipt(*apply_write(transaction, write))
                self._keys.finish(transaction, key, answer)
                return answer
        except BaseException:
            self._keys.release(key)
            raise

    def _read(self, kind: str, record: str) -> Answer:
        found = ledger.record_as_it_is(self._database, kind, record)
        return (
            json_answer(200, found) if found else problem(404, "no_such_record", "There is no such record.")
        )

    def _look_up(self, contract: str, key: str) -> Answer:
        if contract == "keyed" and self._keys.in_progress(key):
            return problem(404, "operation_in_progress", "Nothing is applied under this key yet.")
        found = ledger.effects_under_key(self._database, contract, key)
        if not found or (contract == "keyed" and not self._keys.knows(key)):
            return problem(404, "no_such_operation", "Nothing was applied under this key.")
        # A key that outlived its retention may have several effects: the retained request is the last one.
        effect = found[-1] if contract == "keyed" else found[0]
        receipt = {
            name: effect[name] for name in ("id", "record", "version", "applied_at", "body_sha256", "fields")
        }
        return json_answer(200, {**receipt, "operation_key": key, "count": len(found)})


def _operation_key(request: Incoming, contract: str) -> str | None:
    if contract == "neither":
        return None
    if contract == "lookup":
        return request.header("X-Operation-Key") or None
    key = request.header("Idempotency-Key")
    if not key:
        raise Refused(problem(400, "key_missing", "Idempotency-Key is required."))
    if len(key) > KEY_LENGTH:
        raise Refused(problem(400, "key_too_long", f"Idempotency-Key has at most {KEY_LENGTH} characters."))
    return key


def _wrong_amount(value: object, name: str = "") -> str | None:
    """The path of the first amount that is not a decimal string. Whole numbers are fine where no amount is meant."""
    if isinstance(value, dict):
        return next((bad for key, inner in value.items() if (bad := _wrong_amount(inner, str(key)))), None)
    if isinstance(value, list):
        return next((bad for inner in value if (bad := _wrong_amount(inner, name))), None)
    is_amount = name == "amount" or name.endswith(("_limit", "_amount"))
    if isinstance(value, float) or (is_amount and isinstance(value, int)):
        return name or "a number"
    return name if is_amount and isinstance(value, str) and not DECIMAL.fullmatch(value) else None


def _receipt(created: bool, receipt: dict[str, Any]) -> Answer:
    return json_answer(201 if created else 200, receipt)
