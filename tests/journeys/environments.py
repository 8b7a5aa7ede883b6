"""A Python environment as a stranger has it: Counterfoil's own, with its `.pth`, in a folder of the test's."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from config.var import PROJECT

HIDDEN = ("DJANGO_SETTINGS_MODULE", "COUNTERFOIL_TESTING", "PYTHONPATH")


@dataclass(frozen=True)
class Environment:
    """One environment. What is installed into it stays in it."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Environment:
        """Without a network: what our own environment has is on the path of the new one."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        made = cls(folder)
        packages = Path(made.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        (packages / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
        (packages / "counterfoil.pth").write_text(f"{PROJECT}\n")
        return made

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    def run(self, *arguments: str, cwd: Path | None = None, fails: bool = False, **environment: str) -> str:
        """What `python ARGUMENTS` printed; it has to end well, or (with `fails`) badly."""
        kept = {k: v for k, v in os.environ.items() if k not in HIDDEN}
        ended = subprocess.run(
            [self.python, *arguments],
            cwd=cwd,
            env={**kept, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert (ended.returncode != 0) is fails, f"{arguments}: {ended.returncode}\n{ended.stdout}"
        return ended.stdout

    def install(self, package: Path) -> None:
        """`pip install -e`, from what is here."""
        offline = (
            "--no-build-isolation",
            "--no-deps",
            "--no-index",
            "--disable-pip-version-check",
            "--quiet",
        )
        self.run("-m", "pip", "install", *offline, "-e", str(package))
