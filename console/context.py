from typing import Any

from django.http import HttpRequest


def console(request: HttpRequest) -> dict[str, Any]:
    """What base.html needs on every page."""
    return {}
