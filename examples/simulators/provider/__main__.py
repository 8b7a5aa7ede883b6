"""`python -m examples.simulators.provider (--port P | --socket FD) --database FILE [--host H] [--script FILE]`."""

import argparse
from pathlib import Path

from examples.simulators.provider.app import Provider
from examples.simulators.server import Server, where_to_listen

DEFAULT_SCRIPT = Path(__file__).parent.parent / "provider_script.json"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="examples.simulators.provider", description="A scripted model provider."
    )
    where_to_listen(parser)
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--script", type=Path, default=DEFAULT_SCRIPT)
    chosen = parser.parse_args()
    provider = Provider(database=chosen.database, script=chosen.script)
    Server("Scripted-Provider", chosen, provider).run()


if __name__ == "__main__":
    main()
