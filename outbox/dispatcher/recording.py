"""Recording what came of a try: the message's new state, the try itself, and what it says about the endpoint."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import QuerySet

from access import tenant_journal
from access.roles import Actor, ActorKind
from access.tenancy import acting
from outbox.dispatcher.claiming import Claim
from outbox.dispatcher.outcomes import Delivered, Later, Never, Outcome, pause
from outbox.locks import lock_endpoint, lock_message
from outbox.models import Endpoint, Message, Try, TryOutcome

GONE = "It answered 410: nobody is there any more."


def record(*, claim: Claim, outcome: Outcome, began: datetime, now: datetime) -> TryOutcome:
    """Write a try and what it changes; what it counted as. Locks message → its followers → endpoint.

    A claim that is no longer ours is recorded as stale and changes nothing else. So is one that was recorded already:
    its try stands, and no other is written.
    """
    with acting(claim.tenant_id):
        message = lock_message(claim.message_id)
        if (message.claim_no, message.claimed_by) != (claim.number, claim.dispatcher):
            return _keep_try(claim, TryOutcome.STALE, outcome.said, began, now)
        counted = _settle(message, outcome, now)
        if message.endpoint_id is not None:
            _judge_endpoint(message.endpoint_id, claim, outcome, now)
        return _keep_try(claim, counted, outcome.said, began, now)


def _settle(message: Message, outcome: Outcome, now: datetime) -> TryOutcome:
    row = Message.objects.filter(pk=message.pk)
    match outcome:
        case Delivered():
            row.update(claimed_by="", next_attempt_at=None, delivered_at=now, last_error="")
            _bring_on(message, now)
            return TryOutcome.DELIVERED
        case Never():
            _give_up(message, outcome.said, now, quiet=outcome.quiet)
            _bring_on(message, now)
            return TryOutcome.REFUSED
        case Later():
            again = now + timedelta(seconds=pause(message.attempts, outcome.not_before))
            if again >= message.gives_up_at:
                _give_up(message, outcome.said, now, quiet=False)
                _bring_on(message, now)
            else:
                row.update(claimed_by="", next_attempt_at=again, last_error=outcome.said[:500])
                # None of them can be taken before; so nobody has to look at them meanwhile.
                _followers(message).filter(next_attempt_at__lt=again).update(next_attempt_at=again)
            return TryOutcome.FAILED


def _followers(message: Message) -> QuerySet[Message]:
    """What waits behind it: written later of the same job, for the same recipient."""
    return message.of_the_same().filter(pk__gt=message.pk)


def _bring_on(message: Message, now: datetime) -> None:
    """The next one's turn has come."""
    following = _followers(message).order_by("pk").first()
    if following is not None:
        Message.objects.filter(pk=following.pk, next_attempt_at__gt=now).update(next_attempt_at=now)


def _give_up(message: Message, why: str, now: datetime, *, quiet: bool) -> None:
    Message.objects.filter(pk=message.pk).update(
        claimed_by="",
        next_attempt_at=None,
        given_up_at=now,
        reported_at=now if quiet else None,
        last_error=why[:500],
    )


def _judge_endpoint(endpoint_id: int, claim: Claim, outcome: Outcome, now: datetime) -> None:
    """An endpoint that lags shares its slots with others that do; one that is gone is told nothing more."""
    lags = not isinstance(outcome, Delivered) or outcome.slow
    gone = isinstance(outcome, Never) and outcome.gone
    known = Endpoint.objects.get(pk=endpoint_id)
    if lags == (known.lagging_since is not None) and not gone:
        return
    endpoint = lock_endpoint(endpoint_id)
    row = Endpoint.objects.filter(pk=endpoint.pk)
    row.update(lagging_since=(endpoint.lagging_since or now) if lags else None)
    if gone and endpoint.disabled_at is None:
        row.update(disabled_at=now, disabled_by=claim.dispatcher, disabled_reason=GONE)
        actor = Actor(kind=ActorKind.WORKER, name=claim.dispatcher)
        evidence = {"endpoint": endpoint.name, "reason": GONE}
        tenant_journal.record(event="endpoint.disabled", actor=actor, evidence=evidence)


def _keep_try(claim: Claim, outcome: TryOutcome, said: str, began: datetime, now: datetime) -> TryOutcome:
    # A commit whose answer was lost has written it: then the first one stands.
    one = Try(
        tenant_id=claim.tenant_id,
        message_id=claim.message_id,
        claim_no=claim.number,
        outcome=outcome,
        said=said[:500],
        dispatcher=claim.dispatcher,
        started_at=began,
        ended_at=now,
    )
    Try.objects.bulk_create([one], ignore_conflicts=True)
    return outcome
