"""What the OpenAPI document says, read once for every writer: the names of its types, and its operations."""

from collections.abc import Iterator
from typing import Any, cast

import msgspec

JSON_MEDIA = "application/json"
METHODS = ("get", "post", "put", "patch", "delete")

Node = dict[str, Any]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path."""

    name: str
    method: str
    path: str
    says: str
    parameters: dict[str, list[Node]]
    """By where they stand: path, query, header."""
    bodies: dict[str, Node]
    """The schema of what may be sent, by media type."""
    body_required: bool
    answers: dict[str, dict[str, Node]]
    """The schema of what is answered when it goes well, by status and media type; no media type where nothing is."""


class Contract:
    """The document, with a type's name for every schema in it."""

    def __init__(self, document: Node) -> None:
        self._document = document
        schemas: dict[str, Node] = document.get("components", {}).get("schemas", {})
        self.schemas = dict(sorted(schemas.items()))
        if odd := [name for name in schemas if not name.isalnum()]:
            raise ValueError(f"no names for types, because two structs are called the same: {', '.join(odd)}")

    def operations(self) -> Iterator[Operation]:
        """Every operation, by path and method."""
        for path, item in sorted(self._document["paths"].items()):
            for method, described in sorted(item.items()):
                if method in METHODS:
                    yield _operation(path, method, described)


def values_of(schema: Node) -> Node | None:
    """The schema of what an object of any keys holds; null where that may be anything."""
    values: object = schema.get("additionalProperties")
    return cast("Node", values) if isinstance(values, dict) else None


def types_of(schema: Node) -> list[str]:
    """The JSON types that a schema allows; none where it says nothing of them."""
    kind: object = schema.get("type", [])
    return [kind] if isinstance(kind, str) else cast("list[str]", kind)


def referred(schema: Node) -> str | None:
    """The type's name that a schema refers to."""
    return schema["$ref"].rpartition("/")[2] if "$ref" in schema else None


def _operation(path: str, method: str, described: Node) -> Operation:
    parameters: dict[str, list[Node]] = {"path": [], "query": [], "header": []}
    for each in described.get("parameters", ()):
        parameters[each["in"]].append(each)
    body = described.get("requestBody", {})
    return Operation(
        name=described["operationId"],
        method=method,
        path=path,
        says=described.get("description") or described.get("summary", ""),
        parameters=parameters,
        bodies=_schemas(body),
        body_required=bool(body.get("required")),
        answers={status: _schemas(told) for status, told in sorted(described["responses"].items()) if status[0] == "2"},
    )


def _schemas(told: Node) -> dict[str, Node]:
    return {media: content.get("schema", {}) for media, content in told.get("content", {}).items()}
