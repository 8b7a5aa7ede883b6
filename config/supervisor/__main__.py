"""`python -m config.supervisor run`."""

import sys

from config.supervisor.run import run

if sys.argv[1:] != ["run"]:
    sys.exit("Use: python -m config.supervisor run")
sys.exit(run())
