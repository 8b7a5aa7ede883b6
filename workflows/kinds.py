"""What runs a stage's items, and how an attempt can end. Needs no settings, so that authors' tests need none either."""

from django.db import models


class StageKind(models.TextChoices):
    """What a stage's items are run by."""

    VALIDATE = "validate"
    STEP = "step"
    EACH = "each"
    PROPOSE = "propose"
    MACHINE = "machine"
    SET_ASIDE = "set aside"  # what a migration did not keep, or what a step had done before it was run again


NOT_STEPS = (StageKind.MACHINE, StageKind.SET_ASIDE)
"""Kinds of stages that are no steps of the job's workflow."""


class AttemptOutcome(models.TextChoices):
    """How one attempt ended."""

    SUCCEEDED = "succeeded"  # its result was accepted
    WAITING = "waiting"  # it has nothing to do until it is rung, or a time, an event or an answer comes
    RETRYABLE = "retryable"  # failed; may be tried again
    PERMANENT = "permanent"  # failed; trying again cannot help
    TIMED_OUT = "timed out"  # its handler outstayed its time and was left behind; may be tried again
    WORKER_DIED = "worker died"  # its worker's session ended; written by whoever took the item over
    LEASE_LOST = "lease lost"  # its worker's lease ran out; likewise
    RELEASED = "released"  # given back unrun or unfinished when its worker stopped
    STALE = "stale"  # answered after it had lost its claim: recorded, discarded


class Fate(models.TextChoices):
    """What became of what a call cost."""

    KEPT = "kept"  # the attempt gave a result, of a job that was not refused
    FAILED = "failed"  # the attempt gave no result that counts
    REFUSED = "refused"  # it gave one, and the job was rejected, cancelled or failed
