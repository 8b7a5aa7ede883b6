"""The engine: one a worker process. It claims due work items, runs their handlers and records what came of them.

    liveness  holds the process's advisory lock, renews its lease, listens, frees what the dead left behind
    committer records what the slots finished and claims for the freed slots, in one transaction (group commit)
    slots     threads that run handlers, outside any transaction
    advancer  what follows a batch and needs the rooms above: opening stages, freezing proposals, reporting

The committer and liveness use plain psycopg connections as the role counterfoil_engine, which crosses tenants; all
else runs as the app's role in the scope of the item's tenant. `docs/concurrency.md` has the orders of locks.
"""
