"""Cases about the lines of a statement that no operation claims: one for each statement, without a job.

A walk of the ladder ends, or something is said of a line: the database marks the statement's tally as stale, and an
errand opens the case, or closes it with the last line. So a case is there once, however many workers see the mark.
"""
