"""What Google itself says its interfaces take: requests held against the discovery documents of its client package."""

import functools
import importlib.util
import json
import re
from datetime import datetime
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import jsonschema

from coilclaw.features.mail.accounts import SCOPES
from coilclaw.features.mail.send_as import scopes_of
from coilclaw.packets.errors import EgressRefused
from tests.missing import lacks

DOCUMENTS = {"/gmail/": "gmail.v1", "/calendar/": "calendar.v3"}
NUMBERS = {"integer": r"-?[0-9]{1,18}", "boolean": "true|false"}


@functools.cache
def document(name):
    """One of Google's documents; the package is only read, never imported."""
    found = importlib.util.find_spec("googleapiclient")
    if found is None or found.origin is None:
        lacks("Google's discovery documents", "Install requirements-dev.lock.")
    place = Path(found.origin).parent / "discovery_cache" / "documents" / f"{name}.json"
    return json.loads(place.read_text())


@functools.cache
def methods(name):
    """Every method: its HTTP method, the shape of its path, and what the document says."""

    def below(resource):
        yield from resource.get("methods", {}).values()
        for inner in resource.get("resources", {}).values():
            yield from below(inner)

    told = document(name)
    return [
        (each["httpMethod"], re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(f"/{told['servicePath']}{each['path']}")), each)
        for each in below(told)
    ]


def faults(request):
    """What Google's documents have against a request, in words; an empty list if they describe it."""
    parts = urlsplit(request.url)
    name = next((name for start, name in DOCUMENTS.items() if parts.path.startswith(start)), None)
    if name is None:
        return [f"{parts.path} is no interface of Google's"]
    fits = [each for method, path, each in methods(name) if method == request.method and re.fullmatch(path, parts.path)]
    if len(fits) != 1:
        return [f"{len(fits)} methods are {request.method} {parts.path}"]
    (method,) = fits
    found = [] if set(scopes_of(request)) & set(method["scopes"]) else [f"{method['id']} takes none of our scopes"]
    if not set(scopes_of(request)) <= set(SCOPES[request.identity]):
        found.append(f"{request.identity} never has the scopes for {method['id']}")
    given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    found += _parameter_faults(document(name), method, given)
    return found + _body_faults(document(name), method, request)


def _parameter_faults(told, method, given):
    known = {**told["parameters"], **method.get("parameters", {})}
    for key, value in given:
        rule = known.get(key)
        if rule is None or rule["location"] != "query":
            yield f"{method['id']} has no parameter {key}"
        elif not re.fullmatch(NUMBERS.get(rule["type"], r"(?s).*"), value) or value not in rule.get("enum", [value]):
            yield f"{method['id']} does not take {key}={value}"
        elif rule.get("format") == "date-time" and not _is_moment(value):
            yield f"{key}={value} is no time of RFC 3339"
    names = [key for key, _ in given]
    once = [key for key in names if names.count(key) > 1 and not known.get(key, {}).get("repeated")]
    wanted = [key for key, rule in known.items() if rule.get("required") and rule["location"] == "query"]
    yield from (f"{method['id']} takes {key} once" for key in once)
    yield from (f"{method['id']} needs {key}" for key in wanted if key not in names)


def _is_moment(text):
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", text):
        return False
    return datetime.fromisoformat(text).tzinfo is not None


def _body_faults(told, method, request):
    wanted = method.get("request")
    if wanted is None:
        return [f"{method['id']} takes no body"] if request.body else []
    if dict(request.headers).get("Content-Type") != "application/json":
        return [f"{method['id']} takes JSON"]
    schemas = {name: _closed(schema) for name, schema in told["schemas"].items()}
    checks = jsonschema.Draft202012Validator({"$ref": f"#/$defs/{wanted['$ref']}", "$defs": schemas})
    body = json.loads(request.body)
    found = [error.message for error in checks.iter_errors(body)]
    needed = [
        name
        for name, rule in told["schemas"][wanted["$ref"]]["properties"].items()
        if method["id"] in rule.get("annotations", {}).get("required", [])
    ]
    found += [f"{method['id']} needs {name} in its body" for name in needed if name not in body]
    raw = body.get("message", {}).get("raw", "")
    return found if re.fullmatch(r"[A-Za-z0-9_-]*={0,2}", raw) else [*found, "raw is not base64url"]


def _closed(schema):
    """A schema of a discovery document as JSON Schema, in which nothing else may stand."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return {"$ref": f"#/$defs/{schema['$ref']}"}
    kept = {key: schema[key] for key in ("type", "enum", "pattern") if key in schema}
    if "items" in schema:
        kept["items"] = _closed(schema["items"])
    if "properties" in schema:
        kept["properties"] = {key: _closed(each) for key, each in schema["properties"].items()}
    if schema.get("type") == "object":
        kept["additionalProperties"] = _closed(schema.get("additionalProperties", False))
    return kept


class Checked:
    """The way out, with every request to Google held against its documents on the way."""

    def __init__(self, transport):
        self.transport = transport
        self.asked = []
        self.faults = []

    async def send(self, request):
        try:
            return await self.transport.send(request)
        except EgressRefused:
            request = None  # it never left
            raise
        finally:
            if request is not None and request.principal == "google":
                self.asked.append(request)
                self.faults += [(request.method, unquote(request.url), fault) for fault in faults(request)]

    def __getattr__(self, name):
        return getattr(self.transport, name)
