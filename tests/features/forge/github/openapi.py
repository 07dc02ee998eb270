"""GitHub's own description of its API, to hold requests and answers to: ours, and those of whoever stands in for it."""

import functools
import json
import re
from pathlib import Path

from jsonschema import validators
from jsonschema.validators import Draft4Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT4

from tests.missing import lacks

DOCUMENT = Path(__file__).parent / "node_modules" / "api.github.com.json"
"""Brought by scripts/test; the package it comes from is too large to install."""

WRONG = ("required_status_checks: 'contexts' is a required property",)
"""Where the description errs: with `checks` and `contexts` together the service refuses the request."""


def needed():
    """The contract, or the test is left out."""
    if not DOCUMENT.exists():
        lacks("GitHub's OpenAPI document", "Run: scripts/github-contract.")
    return contract()


def found():
    """The contract where it is here, else None: tests that are about something else run all the same."""
    return contract() if DOCUMENT.exists() else None


def _unless_null(check):
    """Of OpenAPI 3.0: a schema that is nullable takes null, whatever else it says."""

    def checked(validator, value, instance, schema):
        if instance is None and schema.get("nullable"):
            return
        yield from check(validator, value, instance, schema) or ()

    return checked


_KEYWORDS = ("type", "enum", "allOf", "anyOf", "oneOf", "format")
_Nullable = validators.extend(
    Draft4Validator, {name: _unless_null(Draft4Validator.VALIDATORS[name]) for name in _KEYWORDS}
)


class Contract:
    """Requests and answers against the description; faults are texts."""

    def __init__(self, document):
        self._paths = document["paths"]
        self._registry = Registry().with_resource("urn:gh", Resource(contents=document, specification=DRAFT4))
        self._checks = {}
        shapes = ((re.sub(r"\{[^}]+\}", "([^/]+)", path), path) for path in self._paths)
        # a reference has slashes in it, which the description does not say
        self._shapes = [(re.compile(shape.replace("/{ref}", "/.+")), path) for shape, path in shapes]
        self._shapes += [
            (re.compile(r"/repos/[^/]+/[^/]+/git/" + name + "/.+"), f"/repos/{{owner}}/{{repo}}/git/{name}/{{ref}}")
            for name in ("ref", "refs", "matching-refs")
        ]
        self._shapes.append((re.compile(r"/repos/[^/]+/[^/]+/contents/.+"), "/repos/{owner}/{repo}/contents/{path}"))

    def faults(self, method, path, body, status, answer):
        """What is wrong with a request and its answer."""
        bare = path.partition("?")[0]
        named = [each for shape, each in self._shapes if shape.fullmatch(bare) and method.lower() in self._paths[each]]
        if not named:
            return [f"{method} {bare} is not in the description"]
        operation = min(named, key=lambda each: each.count("{"))
        there = ("paths", operation, method.lower())
        found = []
        if method != "GET" and body:
            found += self._against((*there, "requestBody", "content", "application/json", "schema"), body)
            found = [each for each in found if each not in WRONG]
        told = self._paths[operation][method.lower()]["responses"].get(str(status))
        if told is None and status == 304:
            return found  # any conditional read may be answered so, which is said elsewhere
        if told is None:
            return [*found, f"{method} {operation} never answers {status}"] if status < 400 else found
        if "$ref" in told:
            there = ("components", "responses", told["$ref"].rsplit("/", 1)[1])
        else:
            there = (*there, "responses", str(status))
        if status not in (204, 304) and answer is not None:
            found += self._against((*there, "content", "application/json", "schema"), answer)
        return [f"{method} {operation} {status}: {each}" for each in found]

    def _against(self, place, value):
        pointer = "urn:gh#/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in place)
        check = self._checks.get(pointer)
        if check is None:
            check = self._checks[pointer] = _Nullable({"$ref": pointer}, registry=self._registry)
        return [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:120]}" for e in check.iter_errors(value)]


@functools.cache
def contract():
    """The description, read once."""
    return Contract(json.loads(DOCUMENT.read_text()))
