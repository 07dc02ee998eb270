"""Completes the OpenAPI document: what the door does to every request, and the docstrings of fields."""

import ast
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast, get_args, get_type_hints

import msgspec
from litestar import Controller

from coilclaw.server.events import stream_messages
from coilclaw.server.problems import MEDIA_TYPE, Problem

_WRITES = ("post", "put", "patch", "delete")
_METHODS = ("get", "head", "options", *_WRITES)
_WEBHOOKS = {("post", "/runner/v1/webhooks/{repo_id}"), ("post", "/v1/forge/webhook")}
_PAIRING = {("post", "/v1/pairing/bind"), ("get", "/v1/pairing/github"), ("post", "/v1/pairing/github")}
_OPEN = frozenset({("get", "/health"), *_PAIRING, *_WEBHOOKS})
_ALWAYS = (400, 403, 408, 413, 415, 421, 422, 429, 500, 503)
_BODIES = (408, 413, 415)
_SAID = {
    400: "The request is malformed.",
    401: "The request is not from a signed-in device.",
    403: "This origin or device may not do this, or the owner's proof is missing.",
    404: "Not found.",
    405: "The path does not support this method.",
    408: "The request did not arrive in time.",
    409: "It conflicts with the current state, or the Idempotency-Key was used for another request.",
    413: "The body is too large.",
    415: "The body's media type is not supported.",
    422: "The request matches the schema but is not valid here.",
    421: "The server does not answer to that host name.",
    429: "Too many requests; `Retry-After` says when to retry.",
    500: "Something unexpected went wrong.",
    503: "Storage failed, or a limit on open work is reached.",
}
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Any text chosen by the client: the same request with the same key is executed once, and a"
    " repeated request gets the first response. The same key with a different request is refused (409).",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}
_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "The `ETag` the client has; 304 if nothing has changed.",
    "schema": {"type": "string"},
}
_SECURITY = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "The token the device received when it was paired.",
    },
    "cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": "__Host-coilclaw",
        "description": "The same for browsers; accepted only in requests from our own pages.",
    },
}

_REFERENCE = re.compile(r'"#/components/schemas/([^"]+)"')
_PAGE_NAME = re.compile(rb'\bPage_(?:\w+\.)+(\w+)_(?=")')
"""The framework's schema name of a page, which includes the module, irrelevant to clients."""

Node = dict[str, Any]


def completed(document: Node, controllers: Sequence[type[Controller]]) -> bytes:
    """The document as JSON, with the common parts of every operation."""
    components = cast("Node", document.setdefault("components", {}))
    schemas = cast("Node", components.setdefault("schemas", {}))
    structs = _structs(controllers)
    if _tell_streams(document):
        schemas |= stream_messages.schemas()
        structs |= stream_messages.structs()
    _describe(schemas, structs)
    _require(schemas, structs, taken=_taken(document, schemas))
    schemas["Problem"] = _problem_schema()
    components["securitySchemes"] = _SECURITY
    components["responses"] = {f"Problem{status}": _problem(status) for status in sorted(_SAID)}
    document["security"] = [{"bearer": []}, {"cookie": []}]
    document["servers"] = [{"url": "/"}]
    bare = _bodiless(controllers)
    for path, item in cast("dict[str, Node]", document.get("paths", {})).items():
        for method in _METHODS:
            if method in item:
                _complete(cast("Node", item[method]), method, path)
                if item[method].get("operationId") in bare:
                    item[method]["requestBody"]["required"] = False
    named = msgspec.json.decode(_PAGE_NAME.sub(rb"PageOf\1", msgspec.json.encode(document)))
    text = msgspec.json.encode(named, order="sorted")
    # Python's `$` also matches before a last line break, which our patterns rule out; a schema's does not.
    return msgspec.json.format(text.replace(rb"$(?!\\n)", b"$"), indent=2)


def _bodiless(controllers: Iterable[type[Controller]]) -> set[str]:
    """The operations whose body is optional: their handlers have a default for it."""
    handlers = [
        handler for controller in controllers for handler in vars(controller).values() if hasattr(handler, "fn")
    ]
    return {
        str(handler.operation_id)
        for handler in handlers
        if (data := inspect.signature(handler.fn).parameters.get("data")) is not None
        and data.default is not inspect.Parameter.empty
    }


def _tell_streams(document: Node) -> bool:
    """Describe the messages of every event stream; returns whether there is one."""
    streams = [
        response["content"][stream_messages.MEDIA_TYPE]
        for item in cast("dict[str, Node]", document.get("paths", {})).values()
        for response in item.get("get", {}).get("responses", {}).values()
        if stream_messages.MEDIA_TYPE in response.get("content", {})
    ]
    for stream in streams:
        stream["schema"] = stream_messages.stream_schema()
    return bool(streams)


def _problem_schema() -> Node:
    texts = ("type", "title", "detail", "code", "remedy", "instance")
    properties: Node = {name: {"type": "string"} for name in texts}
    properties["status"] = {"type": "integer"}
    return {
        "type": "object",
        "title": "Problem",
        "description": inspect.cleandoc(Problem.__doc__ or ""),
        "properties": properties,
        "required": ["type", "title", "status", "detail", "code"],
    }


def _problem(status: int) -> Node:
    told: Node = {
        "description": _SAID[status],
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    if status == 429:
        told["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}
    return told


def _complete(operation: Node, method: str, path: str) -> None:
    is_open = (method, path) in _OPEN
    described = str(operation.get("description") or "")
    if described:
        operation["summary"] = described.partition("\n")[0].partition(". ")[0].rstrip(".")
    if is_open:
        operation["security"] = []
    else:
        operation.pop("security", None)
    responses = cast("Node", operation.setdefault("responses", {}))
    for status in _statuses(method, path, is_open=is_open):
        responses[str(status)] = {"$ref": f"#/components/responses/Problem{status}"}
    if "204" in responses:
        cast("Node", responses["204"]).pop("content", None)
    for status, response in responses.items():
        if status in ("404", "409") and "$ref" not in response:
            responses[status] = {"$ref": f"#/components/responses/Problem{status}"}
    parameters = cast("list[Node]", operation.setdefault("parameters", []))
    if method in _WRITES and not is_open:
        parameters.append(_IDEMPOTENCY_KEY)
    if method == "get" and _is_json(responses.get("200")):
        if not any(each["in"] == "header" and each["name"].lower() == "if-none-match" for each in parameters):
            parameters.append(_IF_NONE_MATCH)
        etag = {"schema": {"type": "string"}, "description": "Identifies this response; see If-None-Match."}
        cast("Node", responses["200"]).setdefault("headers", {})["ETag"] = etag
        responses["304"] = {"description": "Not modified: the client's copy is current."}
    if not parameters:
        operation.pop("parameters")


def _statuses(method: str, path: str, *, is_open: bool) -> Iterator[int]:
    yield from (status for status in _ALWAYS if method in _WRITES or status not in _BODIES)
    if not is_open:
        yield 401
    if "{" in path:
        yield 404
    if method in _WRITES and not is_open:
        yield 409


def _is_json(response: object) -> bool:
    return isinstance(response, dict) and "application/json" in cast("Node", response).get("content", {})


# Docstrings of fields


def _structs(controllers: Iterable[type[Controller]]) -> dict[str, type[msgspec.Struct]]:
    """Every struct that a route takes or returns, by name."""
    found: dict[str, type[msgspec.Struct]] = {}
    for controller in controllers:
        for handler in vars(controller).values():
            function = getattr(handler, "fn", None)
            if function is not None:
                for hint in get_type_hints(function).values():
                    _collect(hint, found)
    return found


def _collect(hint: object, found: dict[str, type[msgspec.Struct]]) -> None:
    for inner in get_args(hint):
        _collect(inner, found)
    kind = getattr(hint, "__origin__", hint)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and found.get(kind.__name__) is not kind:
        found[kind.__name__] = kind
        for inner in get_type_hints(kind).values():
            _collect(inner, found)


def _describe(schemas: dict[str, Any], structs: dict[str, type[msgspec.Struct]]) -> None:
    for name, schema in schemas.items():
        struct = _struct_of(name, structs)
        if struct is None:
            continue
        if struct.__struct_config__.forbid_unknown_fields:
            schema["additionalProperties"] = False
            _bound(schema, struct)
        if struct.__doc__ and not schema.get("description"):
            schema["description"] = inspect.cleandoc(struct.__doc__)
        texts = {text: words for kind in reversed(struct.__mro__) for text, words in _under_fields(kind).items()}
        encoded = dict(zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True))
        for field, words in texts.items():
            described = schema.get("properties", {}).get(encoded.get(field, field))
            if isinstance(described, dict):
                cast("Node", described).setdefault("description", words)


def _struct_of(name: str, structs: dict[str, type[msgspec.Struct]]) -> type[msgspec.Struct] | None:
    return structs.get(name.partition("_")[0].partition("[")[0])


def _require(schemas: dict[str, Any], structs: dict[str, type[msgspec.Struct]], *, taken: set[str]) -> None:
    """A default lets a client omit a field; a response still has every field."""
    for name, schema in schemas.items():
        struct = _struct_of(name, structs)
        if struct is not None and name not in taken and not struct.__struct_config__.omit_defaults:
            schema["required"] = sorted(schema.get("properties", {}))


def _taken(document: Node, schemas: dict[str, Any]) -> set[str]:
    """The schemas of request bodies."""
    found: set[str] = set()
    items = cast("dict[str, Node]", document.get("paths", {})).values()
    waiting: list[object] = [item[method].get("requestBody") for item in items for method in _WRITES if method in item]
    while waiting:
        text = msgspec.json.encode(waiting.pop()).decode()
        new = set(_REFERENCE.findall(text)) - found
        found |= new
        waiting += [schemas[name] for name in new]
    return found


def _bound(schema: Node, struct: type[msgspec.Struct]) -> None:
    """Use msgspec's constraints of a field, list items included, instead of the framework's."""
    _, components = msgspec.json.schema_components([struct])
    for name, own in cast("Node", components[struct.__name__]).get("properties", {}).items():
        if "$ref" not in msgspec.json.encode(own).decode():
            schema["properties"][name] = {**own, **_words_of(schema["properties"].get(name, {}))}


def _words_of(described: Node) -> Node:
    return {key: value for key, value in described.items() if key in ("description", "title")}


def _under_fields(kind: type) -> dict[str, str]:
    """The docstring of each field of a class."""
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):
        return {}
    (tree,) = ast.parse(source).body
    found: dict[str, str] = {}
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    for field, below in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and _is_text(below):
            words = cast("ast.Constant", cast("ast.Expr", below).value).value
            found[field.target.id] = " ".join(str(words).split())
    return found


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
