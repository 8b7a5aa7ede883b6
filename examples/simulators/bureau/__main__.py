"""`python -m examples.simulators.bureau --port P --database FILE [--host H]`."""

import argparse
from pathlib import Path

from examples.simulators.bureau.app import Bureau
from examples.simulators.server import Server


def main() -> None:
    parser = argparse.ArgumentParser(prog="examples.simulators.bureau", description="A company bureau.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True, help="0 takes a free one and prints it")
    parser.add_argument("--database", type=Path, required=True)
    chosen = parser.parse_args()
    Server("Company-Bureau", chosen.host, chosen.port, Bureau(database=chosen.database)).run()


if __name__ == "__main__":
    main()
