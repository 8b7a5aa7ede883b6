"""`python -m examples.simulators.index (--port P | --socket FD) --database FILE [--host H]`."""

import argparse
from pathlib import Path

from examples.simulators.index.app import Index
from examples.simulators.server import Server, where_to_listen


def main() -> None:
    parser = argparse.ArgumentParser(prog="examples.simulators.index", description="A document index.")
    where_to_listen(parser)
    parser.add_argument("--database", type=Path, required=True)
    chosen = parser.parse_args()
    Server("Document-Index", chosen, Index(database=chosen.database)).run()


if __name__ == "__main__":
    main()
