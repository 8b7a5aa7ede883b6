"""The child of text_extraction.py: `python -m examples.text_extraction_child pdf|docx|text`, the file on stdin.

Answers one JSON object: {"text": …, "pages": …} or {"refused": a sentence}. It takes its own limits before it reads.
"""

from __future__ import annotations

import io
import json
import logging
import resource
import sys
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

CPU_SECONDS, MEMORY, OPEN_FILES = 20, 768 * 1024 * 1024, 64
MOST_PAGES, MOST_CHARACTERS = 2000, 2_000_000
MOST_PARTS, MOST_UNPACKED = 5000, 100_000_000
SCANNED = "has {pages} and no text in it: it may be a scan. Run text recognition over it first."


class Refused(Exception):
    """The sentence for whoever sent the file."""


def main() -> None:
    _take_limits()
    logging.disable(logging.CRITICAL)
    kind, content = sys.argv[1], sys.stdin.buffer.read()
    try:
        text, pages = READERS[kind](content)
        answer: dict[str, Any] = {"text": _clean(text), "pages": pages}
    except Refused as refused:
        answer = {"refused": str(refused)}
    sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=False).encode())


def _take_limits() -> None:
    # The soft limit on time ends the process by a signal of its own, so that it can be told from a kill.
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
    for what, limit in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (limit, limit))


def _pdf(content: bytes) -> tuple[str, int]:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, PyPdfError

    with _as_refusal("It begins like a PDF but cannot be read as one: save it anew.", PyPdfError):
        reader = PdfReader(io.BytesIO(content))
        try:
            locked = reader.is_encrypted and not reader.decrypt("")
        except (DependencyError, NotImplementedError):
            locked = True
        if locked:
            raise Refused("The PDF is protected by a password: send a copy without one.")
        pages = len(reader.pages)
        if not 0 < pages <= MOST_PAGES:
            raise Refused(
                f"The PDF has {pages:,} pages; at most {MOST_PAGES:,} are read."
                if pages
                else "The PDF has no page."
            )
        text = _joined(page.extract_text() for page in reader.pages)
    if not text.strip():
        raise Refused("The PDF " + SCANNED.format(pages=f"{pages} page{'s' if pages > 1 else ''}"))
    return text, pages


def _docx(content: bytes) -> tuple[str, int]:
    from docx import Document
    from docx.table import Table

    broken = "It begins like a Word document but cannot be read as one: save it anew as .docx."
    with _as_refusal(broken, zipfile.BadZipFile):
        _refuse_bomb(content)
        document = Document(io.BytesIO(content))
        text = _joined(
            _rows(block) if isinstance(block, Table) else block.text
            for block in document.iter_inner_content()
        )
    if not text.strip():
        raise Refused("The Word document has no text in it.")
    return text, 0


def _text(content: bytes) -> tuple[str, int]:
    text = content.decode("utf-8")
    if not text.strip():
        raise Refused("The file has no text in it.")
    return _joined([text]), 0


READERS: dict[str, Callable[[bytes], tuple[str, int]]] = {"pdf": _pdf, "docx": _docx, "text": _text}


class _as_refusal:  # noqa: N801 - reads as a statement
    """Whatever a parser stumbles over is the file's fault: the sentence. Too little memory or time ends the process."""

    def __init__(self, sentence: str, *_expected: type[Exception]) -> None:
        self._sentence = sentence

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, (Refused, MemoryError)):
            raise Refused(self._sentence) from error


def _refuse_bomb(content: bytes) -> None:
    """By what the package says it holds; what it does not say is stopped by the limits."""
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        parts = package.infolist()
        unpacked = sum(part.file_size for part in parts)
    if len(parts) > MOST_PARTS or unpacked > MOST_UNPACKED:
        raise Refused(
            f"The Word document would unpack to {unpacked:,} bytes in {len(parts):,} parts;"
            f" at most {MOST_UNPACKED:,} in {MOST_PARTS:,} are unpacked."
        )


def _rows(table: Any) -> str:
    return "\n".join("\t".join(cell.text for cell in row.cells) for row in table.rows)


def _joined(parts: Any) -> str:
    return "\n\n".join(_up_to_the_limit(parts))


def _up_to_the_limit(parts: Any) -> Iterator[str]:
    length = 0
    for part in parts:
        length += len(part)
        if length > MOST_CHARACTERS:
            raise Refused(f"The document holds more than {MOST_CHARACTERS:,} characters: send it in parts.")
        yield part


def _clean(text: str) -> str:
    """Without what a database or a JSON text cannot hold: NUL, other controls, halves of pairs."""
    kept = "".join(c for c in text if c >= " " or c in "\n\t")
    return kept.encode("utf-8", "replace").decode()


if __name__ == "__main__":
    main()
