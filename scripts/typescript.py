"""Write the panel's types from docs/openapi.json: what the server takes and answers, route by route."""

import json
import re
import textwrap
from collections.abc import Iterable

from contract import JSON_MEDIA, Contract, Node, Operation, referred, types_of, values_of

WIDTH = 120
JSON_TYPES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
MEDIA_TYPES = {"multipart/form-data": "FormData", "application/octet-stream": "Blob"}
HEAD = """/** What the server takes and answers, made from docs/openapi.json by scripts/docs.py. Do not edit. */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
"""
ROUTES = """
/**
 * Every operation by method and path: what fills the path, what is asked in the query, what is sent, what is answered.
 * An answer that is no JSON is a Response.
 */
export interface Routes {
"""


class Writer:
    """Turns one document into one module of types."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract

    def module(self) -> str:
        """The whole text."""
        types = [self._type(name, schema) for name, schema in self._contract.schemas.items()]
        by_method: dict[str, list[str]] = {}
        for operation in self._contract.operations():
            by_method.setdefault(operation.method.upper(), []).append(self._route(operation))
        routes = [f"  {method}: {{\n{''.join(lines)}  }};\n" for method, lines in sorted(by_method.items())]
        return HEAD + "".join(types) + ROUTES + "".join(routes) + "}\n"

    def kind(self, schema: Node) -> str:
        """The TypeScript type of a schema."""
        name = referred(schema)
        if name is not None:
            return name
        for several in ("oneOf", "anyOf"):
            if several in schema:
                return _union(self.kind(each) for each in schema[several])
        if "const" in schema or "enum" in schema:
            return _union(_literal(each) for each in schema.get("enum", [schema.get("const")]))
        kinds = types_of(schema)
        if len(kinds) > 1:
            return _union(self.kind({**schema, "type": each}) for each in kinds)
        kind = kinds[0] if kinds else ""
        if kind == "array":
            items = self.kind(schema.get("items", {}))
            return f"({items})[]" if " | " in items else f"{items}[]"
        if kind == "object" and "properties" in schema:
            return self._fields(schema)
        if kind == "object":
            values = values_of(schema)
            return f"{{ [key: string]: {'Json' if values is None else self.kind(values)} }}"
        return JSON_TYPES.get(kind, "Json")

    def _fields(self, schema: Node) -> str:
        required = set(schema.get("required", ()))
        pairs = [f"{_key(key, key in required)}: {self.kind(field)}" for key, field in schema["properties"].items()]
        return f"{{ {'; '.join(pairs)} }}"

    def _type(self, name: str, schema: Node) -> str:
        said = f"\n{_comment(schema.get('description', ''), '')}"
        if "properties" not in schema:
            return f"{said}export type {name} ={_laid_out(self.kind(schema))};\n"
        required = set(schema.get("required", ()))
        fields = [
            f"{_comment(field.get('description', ''), '  ')}  {_key(key, key in required)}: {self.kind(field)};\n"
            for key, field in schema["properties"].items()
        ]
        return f"{said}export interface {name} {{\n{''.join(fields)}}}\n"

    def _route(self, operation: Operation) -> str:
        parts: list[str] = []
        if holes := operation.parameters["path"]:
            parts.append(f"path: {self._named(holes)}")
        if asked := operation.parameters["query"]:
            parts.append(f"{_key('query', any(each.get('required') for each in asked))}: {self._named(asked)}")
        if operation.bodies:
            parts.append(f"{_key('body', operation.body_required)}: {self._body(operation)}")
        parts.append(f"answer: {self._answer(operation)}")
        return f"    {_literal(operation.path)}: {{ {'; '.join(parts)} }};\n"

    def _named(self, parameters: list[Node]) -> str:
        pairs = [
            f"{_key(each['name'], bool(each.get('required')))}: {self.kind(each.get('schema', {}))}"
            for each in parameters
        ]
        return f"{{ {'; '.join(pairs)} }}"

    def _body(self, operation: Operation) -> str:
        return _union(
            self.kind(schema) if media == JSON_MEDIA else MEDIA_TYPES[media]
            for media, schema in operation.bodies.items()
        )

    def _answer(self, operation: Operation) -> str:
        return _union(
            "undefined" if not told else self.kind(told[JSON_MEDIA]) if JSON_MEDIA in told else "Response"
            for told in operation.answers.values()
        )


def _union(kinds: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(kinds))


def _laid_out(kind: str) -> str:
    """What is too long for a line, each alternative on one of its own."""
    return f" {kind}" if len(kind) < WIDTH // 2 else "".join(f"\n  | {each}" for each in kind.split(" | "))


def _literal(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return f"'{text[1:-1].replace(chr(39), chr(92) + chr(39))}'" if isinstance(value, str) else text


def _key(name: str, required: bool) -> str:
    return (name if re.fullmatch(r"[A-Za-z_]\w*", name) else _literal(name)) + ("" if required else "?")


def _comment(text: str, indent: str) -> str:
    """The words as a comment, on one line where they fit."""
    words = " ".join(text.split()).replace("*/", "* /")
    if not words:
        return ""
    if len(line := f"{indent}/** {words} */") <= WIDTH:
        return f"{line}\n"
    begun = f"{indent} * "
    lines = textwrap.fill(
        words, WIDTH, initial_indent=begun, subsequent_indent=begun, break_long_words=False, break_on_hyphens=False
    )
    return f"{indent}/**\n{lines}\n{indent} */\n"
