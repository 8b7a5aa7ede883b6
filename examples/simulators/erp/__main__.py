"""`python -m examples.simulators.erp --port P --database FILE [--host H] [--retention SECONDS]`."""

import argparse
from datetime import timedelta
from pathlib import Path

from examples.simulators.erp.app import Erp
from examples.simulators.server import Server

DEFAULT_RETENTION = timedelta(hours=24)


def main() -> None:
    parser = argparse.ArgumentParser(prog="examples.simulators.erp", description="The receiver Astrel ERP.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True, help="0 takes a free one and prints it")
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument(
        "--retention", type=float, default=DEFAULT_RETENTION.total_seconds(), metavar="SECONDS"
    )
    chosen = parser.parse_args()
    erp = Erp(database=chosen.database, retention=chosen.retention)
    Server("Astrel-ERP", chosen.host, chosen.port, erp).run()


if __name__ == "__main__":
    main()
