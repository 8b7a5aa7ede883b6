"""`manage.py submit_examples`: example jobs that leave something real on every screen, driven by the running workers."""

import os
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from examples.management import playing, sample, stories
from examples.simulators.client import ErpControl


class Command(BaseCommand):
    help = "Submit the example jobs and bring each to where it is worth looking at. A repeat goes on where it stopped."

    def handle(self, *args: Any, **options: Any) -> None:
        found = sample.loaded()
        if found is None:
            raise CommandError("The sample organisation is not loaded: run manage.py load_sample first.")
        secret = os.environ.get(sample.SIGNED_BY, "")
        if secret:
            erp = ErpControl(settings.COUNTERFOIL_ERP_URL)
            sample.hear_from(erp, found.tenant_id, web=settings.COUNTERFOIL_URL, secret=secret)
        missed = playing.play(found, stories.STORIES, now=timezone.now)
        for story in stories.STORIES:
            said = f"not reached: {missed[story.key]}" if story.key in missed else "there"
            self.stdout.write(f"{story.what}: {said}")
