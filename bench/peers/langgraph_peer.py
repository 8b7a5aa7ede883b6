"""LangGraph with its PostgreSQL checkpointer: `langgraph_peer.py URL chains N` prints nodes a second.

Each node's state is saved before the next begins (`durability="sync"`), as our steps are. Threads run side by side,
over a pool of connections; it has no queue and no workers of its own.
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TypedDict

from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, StateGraph
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

NODES = 50
THREADS = 16
url, _, size = sys.argv[1], sys.argv[2], int(sys.argv[3])


class State(TypedDict):
    i: int
    text: str


def node(state: State) -> State:
    return {"i": state["i"] + 1, "text": "x" * 200}


graph = StateGraph(State)
for number in range(NODES):
    graph.add_node(f"n{number}", node)
graph.add_edge(START, "n0")
for number in range(NODES - 1):
    graph.add_edge(f"n{number}", f"n{number + 1}")
graph.add_edge(f"n{NODES - 1}", END)

options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
with ConnectionPool(url, min_size=THREADS, max_size=THREADS, kwargs=options) as pool:
    saver = PostgresSaver(pool)
    saver.setup()
    app = graph.compile(checkpointer=saver)

    def chain(name: str) -> None:
        config = {"configurable": {"thread_id": name}, "recursion_limit": 100}
        app.invoke({"i": 0, "text": ""}, config, durability="sync")

    chain("warm")
    started = time.monotonic()
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(chain, (f"t{number}" for number in range(size))))
    print(size * NODES / (time.monotonic() - started))
