"""Vectors that depend on a text's words alone: the same words, the same vector; more words in common, nearer."""

import base64
import math
import re
import struct
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

DIMENSIONS, MOST_DIMENSIONS, MOST_INPUTS = 64, 1024, 2048
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Asked:
    """What is to be embedded, and how it is to be answered."""

    texts: list[str]
    dimensions: int
    as_base64: bool


def read(content: dict[str, Any]) -> Asked | str:
    """What was asked for, or what is wrong with it in one sentence."""
    given, dimensions = content.get("input"), content.get("dimensions", DIMENSIONS)
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) and t for t in texts):
        return "input: a text or a list of texts, none of them empty, is required."
    if len(texts) > MOST_INPUTS:
        return f"input: at most {MOST_INPUTS} texts at a time."
    if (
        not isinstance(dimensions, int)
        or isinstance(dimensions, bool)
        or not 1 <= dimensions <= MOST_DIMENSIONS
    ):
        return f"dimensions: a whole number from 1 to {MOST_DIMENSIONS}."
    form = content.get("encoding_format", "float")
    if form not in ("float", "base64"):
        return "encoding_format: float or base64."
    return Asked([t.encode("utf-8", "replace").decode() for t in texts], dimensions, form == "base64")


def answer(asked: Asked, model: str, tokens: int) -> dict[str, Any]:
    """The body of the protocol."""
    data = [
        {"object": "embedding", "index": place, "embedding": _written(vector(text, asked.dimensions), asked)}
        for place, text in enumerate(asked.texts)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": model, "usage": usage}


def vector(text: str, dimensions: int) -> list[float]:
    """Each word adds to one direction, for or against; the whole has length one."""
    total = [0.0] * dimensions
    for word in WORD.findall(text.lower()) or [text]:
        digest = sha256(word.encode()).digest()
        total[int.from_bytes(digest[:8]) % dimensions] += 1.0 if digest[8] % 2 else -1.0
    length = math.sqrt(sum(x * x for x in total)) or 1.0
    # Rounded to what four bytes hold, so that both forms of an answer say the same.
    return [struct.unpack("<f", struct.pack("<f", x / length))[0] for x in total]


def _written(values: list[float], asked: Asked) -> list[float] | str:
    if not asked.as_base64:
        return values
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()
