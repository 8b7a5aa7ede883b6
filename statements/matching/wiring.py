"""What matching registers with the rooms below when the application starts."""

from __future__ import annotations


def ready() -> None:
    """Called once, by the room's AppConfig, when models are loaded."""
    from access import database_objects
    from dispatch import in_part
    from statements.matching import database, effects, parts, running
    from workflows import errands

    database_objects.register("matching", database.statements)
    errands.register(running.ERRAND)
    errands.register(effects.ERRAND)
    in_part.knows_parts(lambda operation: parts.parts_of(operation.pk) is not None)
