"""The limit on uploaded files: one that is too large is read to its end and thrown away, so that it can be said so.

A browser whose upload is cut off shows no page at all. Only what is far too large is cut off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler
from django.http import HttpRequest

V = TypeVar("V", bound=Callable[..., Any])
READ_IN_VAIN = 5
"""So many times the limit is read before a request is cut off."""


def takes_files_up_to(setting: str) -> Callable[[V], V]:
    """Names the setting that limits what is uploaded to a view, where it is not COUNTERFOIL_LARGEST_FILE."""

    def mark(view: V) -> V:
        view.largest_file = setting  # type: ignore[attr-defined]
        return view

    return mark


def largest_file(request: HttpRequest | None) -> int:
    """How many bytes a file may have that comes with this request."""
    match = request.resolver_match if request is not None else None
    setting = getattr(match.func, "largest_file", "") if match is not None else ""
    return int(getattr(settings, setting or "COUNTERFOIL_LARGEST_FILE"))


class WithinLimit(FileUploadHandler):
    """First of the handlers: passes a file on while it is within the limit."""

    _passes = True
    _limit = 0

    def handle_raw_input(
        self,
        input_data: Any,
        META: Any,  # noqa: N803 - the base class names it
        content_length: int,
        boundary: Any,
        encoding: Any = None,
    ) -> None:
        """Refuse what is not worth reading, by the length that the request states."""
        self._limit = largest_file(self.request)
        if content_length > READ_IN_VAIN * self._limit:
            raise RequestDataTooBig

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        """Each file is judged by itself."""
        super().new_file(*args, **kwargs)
        self._passes = True

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes | None:
        """The chunk for the next handler, or nothing from the limit on."""
        self._passes = self._passes and start + len(raw_data) <= self._limit
        return raw_data if self._passes else None

    def file_complete(self, file_size: int) -> UploadedFile[Any] | None:
        """A file over the limit has its size and no content; every other is the next handler's."""
        if self._passes:
            return None
        return UploadedFile(file=None, name=self.file_name, content_type=self.content_type, size=file_size)
