"""The web process: `gunicorn config.wsgi`."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
application = get_wsgi_application()

from workflows.starting import refuse_unclear_definitions  # noqa: E402 - after the apps

refuse_unclear_definitions()
