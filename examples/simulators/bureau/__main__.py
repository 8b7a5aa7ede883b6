"""`python -m examples.simulators.bureau (--port P | --socket FD) --database FILE [--host H]`."""

import argparse
from pathlib import Path

from examples.simulators.bureau.app import Bureau
from examples.simulators.server import Server, where_to_listen


def main() -> None:
    parser = argparse.ArgumentParser(prog="examples.simulators.bureau", description="A company bureau.")
    where_to_listen(parser)
    parser.add_argument("--database", type=Path, required=True)
    chosen = parser.parse_args()
    Server("Company-Bureau", chosen, Bureau(database=chosen.database)).run()


if __name__ == "__main__":
    main()
