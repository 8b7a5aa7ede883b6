"""Compile every template of the project: `python -m config.templates`. A part of `make check`."""

import os
import sys

import django
from django.template import TemplateSyntaxError, engines
from django.template.backends.django import DjangoTemplates

from config.var import PROJECT


def compile_templates() -> list[str]:
    """One sentence for each template that does not compile."""
    faults = []
    for engine in engines.all():
        if not isinstance(engine, DjangoTemplates):
            continue
        for folder in (
            folder for folder in map(str, engine.template_dirs) if folder.startswith(str(PROJECT))
        ):
            for path, _, names in os.walk(folder):
                for name in sorted(names):
                    file = os.path.join(path, name)
                    try:
                        engine.get_template(os.path.relpath(file, folder))
                    except TemplateSyntaxError as fault:
                        faults.append(f"{os.path.relpath(file, PROJECT)}: {fault}")
    return faults


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    os.environ.setdefault("COUNTERFOIL_NO_DATABASE", "1")
    django.setup()
    found = compile_templates()
    print("\n".join(found) or "All templates compile.")
    sys.exit(bool(found))
