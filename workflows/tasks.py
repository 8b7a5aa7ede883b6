"""What q2 calls: a doorbell that only looks whether the engine lives. Its name is stored in rows, so it stays."""

from __future__ import annotations

from django.db import connection, transaction
from django_q.models import Schedule

from workflows.engine import start

SCHEDULE = "counterfoil: is the engine up"


def check_engine() -> str:
    """Start this worker process's engine if it has none; returns at once."""
    return start.ensure_running()


def ensure_schedule() -> None:
    """One schedule row that rings every minute, however often and by however many this is called."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [SCHEDULE])
        if not Schedule.objects.filter(name=SCHEDULE).exists():
            Schedule.objects.create(
                name=SCHEDULE, func="workflows.tasks.check_engine", schedule_type=Schedule.MINUTES, minutes=1
            )
