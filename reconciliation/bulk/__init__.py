"""Bulk: one verb for many jobs, items or cases at once, each with a result of its own.

    verbs         what can be done in bulk, to what, by whom, and the action that does it to one
    answers       what is done to cases
    selecting     the filter that chooses, and freezing what it finds as it is seen
    working       doing the entries, one transaction each, in turns of an engine or of a command
    taking_turns  which of a process asks receivers now
    pages         what the screens show

A selection is frozen, looked at, and confirmed once with a reason; what has changed meanwhile is left alone and listed.
The deed and its entry's result are one transaction, so a crash anywhere does nothing twice.
"""
