"""What the terminal is told, and where the logs are."""

from pathlib import Path

from config.var import PROJECT, var_file


class SetupFailed(Exception):
    """A step before the services failed; the message names its log."""


def say(line: str) -> None:
    try:
        print(line, flush=True)
    except OSError:  # the terminal is gone; stopping must go on
        pass


def log_of(name: str) -> Path:
    return var_file("log", f"{name}.log")


def short(path: Path) -> str:
    return str(path.relative_to(PROJECT)) if path.is_relative_to(PROJECT) else str(path)
