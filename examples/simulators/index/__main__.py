"""`python -m examples.simulators.index --port P --database FILE [--host H]`."""

import argparse
from pathlib import Path

from examples.simulators.index.app import Index
from examples.simulators.server import Server


def main() -> None:
    parser = argparse.ArgumentParser(prog="examples.simulators.index", description="A document index.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True, help="0 takes a free one and prints it")
    parser.add_argument("--database", type=Path, required=True)
    chosen = parser.parse_args()
    Server("Document-Index", chosen.host, chosen.port, Index(database=chosen.database)).run()


if __name__ == "__main__":
    main()
