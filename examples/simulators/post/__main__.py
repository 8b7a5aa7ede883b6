"""`python -m examples.simulators.post (--port P | --socket FD) --database FILE [--host H] [--mail]`.

Two processes over one file: the page with the webhook endpoint, and with `--mail` the mail server.
"""

import argparse
from pathlib import Path

from examples.simulators.post.app import Post
from examples.simulators.post.kept import Kept
from examples.simulators.post.mail import MailServer
from examples.simulators.server import Server, where_to_listen


def main() -> None:
    parser = argparse.ArgumentParser(prog="examples.simulators.post", description="A post office.")
    where_to_listen(parser)
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--mail", action="store_true", help="be the mail server, not the page")
    chosen = parser.parse_args()
    kept = Kept(chosen.database)
    if chosen.mail:
        MailServer(chosen, kept).run()
    else:
        Server("Post-Office", chosen, Post(kept)).run()


if __name__ == "__main__":
    main()
