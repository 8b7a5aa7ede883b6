"""Compensation: what a job's steps made, and the workflow owns, is undone when the job ends without its effect.

    plan       what has to be undone, and what is left of it: read from the rows
    beginning  the hook on FAILED and CANCELLED that rings the machine, in the transaction that ends the job
    machine    calls the handlers, last step first, one result at a time, and records each

A result is undone outside any transaction and recorded in one: a crash between the two calls the handler again, with
the same request key. The job's state does not move. Who wants to run an ended job again asks `plan.refuse_redrive`.
"""
