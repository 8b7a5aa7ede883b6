"""The process in which one attempt runs again: `python -m workflows.replaying.child`, an order on standard input.

It loads the definitions, opens one session that the database itself keeps from writing, raises the wall, and runs the
handler. What came of it goes to the file descriptor that it is given, as JSON. Nothing else leaves the process.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

_exit = os._exit


def main() -> None:
    """Runs the order and ends the process."""
    order = json.load(sys.stdin)
    from django.conf import settings

    settings.DATABASES["default"].setdefault("OPTIONS", {})["options"] = "-c default_transaction_read_only=on"
    import django

    django.setup()
    _answer(_run(order), int(sys.argv[1]))


def _run(order: dict[str, Any]) -> dict[str, Any]:
    from django.db import connection

    from workflows import registry
    from workflows.replaying.confinement import Wall

    try:
        definition = registry.pinned(order["workflow"], order["revision"], order["configuration"])
    except registry.RevisionMissing as missing:
        return {"ended": "missing", "message": str(missing)}
    connection.ensure_connection()
    wall = Wall(scratch=order["scratch"], provider=order["provider"])
    behind = wall.raise_it()
    with wall.database():
        told = _attempt(definition, order)
    return {**told, "refused": wall.refused, "kernel": behind}


def _attempt(definition: Any, order: dict[str, Any]) -> dict[str, Any]:
    from web.redaction import hide
    from workflows.authoring import Ctx, Usage
    from workflows.engine.outcomes import message_of, storable
    from workflows.engine.traces import trace_of
    from workflows.replaying.confinement import EffectRefused, is_refused_write

    usage = Usage()
    try:
        told = _handler(definition, order, Ctx(**order["ctx"], usage=usage))
    except BaseException as error:
        name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
        told = {
            "ended": "raised",
            "error_class": name,
            "message": message_of(error) or name,
            "trace": storable(hide(trace_of(error))),
            "stopped": isinstance(error, EffectRefused) or is_refused_write(error),
        }
    told["usage"] = {
        "tokens_in": usage.tokens_in,
        "tokens_out": usage.tokens_out,
        "cost": str(usage.cost),
        "unpriced": usage.unpriced,
        "route": usage.route,
        "answer": storable(hide(usage.answer)),
    }
    return told


def _handler(definition: Any, order: dict[str, Any], ctx: Any) -> dict[str, Any]:
    """As a slot would run it, with the recorded texts."""
    from workflows import registry
    from workflows.engine import keys, waiting
    from workflows.engine.handling import PROBLEMS, problems_of
    from workflows.engine.outcomes import encode
    from workflows.models import StageKind

    if order["kind"] == StageKind.VALIDATE:
        output, digest = encode(PROBLEMS, problems_of(definition, ctx, order["texts"][""]))
        return {"ended": "returned", "output": output, "digest": digest}
    step = definition.step_named(order["stage"])
    if step is None:
        raise registry.RevisionMissing(f"{definition.name} has no step {order['stage']}.")
    arguments = {p.name: p.adapter.validate_json(order["texts"][p.name]) for p in step.parameters}
    value = step.handler(ctx, **arguments)
    if step.waits and waiting.asks(value):
        return {"ended": "waits", "message": type(value).__name__}
    output, digest = encode(step.output, value)
    keys.check(definition, step, output)
    return {"ended": "returned", "output": output, "digest": digest}


def _answer(told: dict[str, Any], descriptor: int) -> None:
    """Write it and be gone: no code of others runs at the end, and nothing waits for a thread that was left."""
    text = json.dumps(told).encode()
    while text:
        text = text[os.write(descriptor, text) :]
    sys.stdout.flush()
    sys.stderr.flush()
    _exit(0)


if __name__ == "__main__":
    main()
