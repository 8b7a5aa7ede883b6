"""An answer that fits the JSON schema that was asked for, made of the question's own words: never clever, always whole."""

import re
from hashlib import sha256
from typing import Any

CONTENT = re.compile(r"<<<\s*(.*?)\s*>>>", re.DOTALL)
DEEPEST = 20


def fitting(schema: dict[str, Any], last_user: str) -> Any:
    """A value of the schema. Text is what stands between <<< and >>>, or the question; a choice is one that it names."""
    found = CONTENT.search(last_user)
    text = (found.group(1) if found else last_user).strip() or "nothing"
    return _value(schema, schema.get("$defs", {}), text, 0)


def _value(schema: dict[str, Any], definitions: dict[str, Any], text: str, depth: int) -> Any:
    if depth > DEEPEST:
        return None
    if "$ref" in schema:
        schema = definitions.get(str(schema["$ref"]).rpartition("/")[2], {})
    for key in ("anyOf", "oneOf", "allOf"):
        options = [o for o in schema.get(key, []) if o.get("type") != "null"]
        if options:
            return _value(options[0], definitions, text, depth + 1)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return _choice(schema["enum"], text)
    if schema.get("examples"):
        return schema["examples"][0]
    match schema.get("type"):
        case "object":
            properties: dict[str, Any] = schema.get("properties", {})
            return {
                name: _value(inner, definitions, text, depth + 1)
                for name, inner in properties.items()
                if name in schema.get("required", [])
            }
        case "array":
            many = max(int(schema.get("minItems", 1)), 1)
            return [_value(schema.get("items", {}), definitions, text, depth + 1) for _ in range(many)]
        case "integer" | "number":
            return schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
        case "boolean":
            return True
    return text[: int(schema.get("maxLength", 300))]


def _choice(options: list[Any], text: str) -> Any:
    """The first option that the text names; else one that the same text always gets."""
    for option in options:
        if re.search(rf"\b{re.escape(str(option))}\b", text, re.IGNORECASE):
            return option
    return options[int(sha256(text.encode()).hexdigest(), 16) % len(options)]
