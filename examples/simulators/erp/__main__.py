"""`python -m examples.simulators.erp (--port P | --socket FD) --database FILE [--host H] [--retention SECONDS]`."""

import argparse
from datetime import timedelta
from pathlib import Path

from examples.simulators.erp.app import Erp
from examples.simulators.server import Server, where_to_listen

DEFAULT_RETENTION = timedelta(hours=24)


def main() -> None:
    parser = argparse.ArgumentParser(prog="examples.simulators.erp", description="The receiver Astrel ERP.")
    where_to_listen(parser)
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument(
        "--retention", type=float, default=DEFAULT_RETENTION.total_seconds(), metavar="SECONDS"
    )
    chosen = parser.parse_args()
    erp = Erp(database=chosen.database, retention=chosen.retention)
    Server("Astrel-ERP", chosen, erp).run()


if __name__ == "__main__":
    main()
