"""Write a typed Python client from docs/openapi.json. The tests talk to the server through it."""

import keyword
import re

from contract import JSON_MEDIA, Contract, Node, Operation, referred, types_of, values_of

JSON_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
HEAD = '''"""A typed client, made from docs/openapi.json by scripts/docs.py. Do not edit."""

from typing import Any, Literal, TypeAlias

import httpx
import msgspec
'''
SHARED = '''

class Refused(Exception):
    """The server answered with a problem."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(f"{status} {problem.get('code')}: {problem.get('detail')}")
        self.status = status
        self.code = problem.get("code")
        self.problem = problem


class Client:
    """One method for each operation."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def _ask(
        self, method: str, path: str, query: dict[str, Any], headers: dict[str, Any], body: Any, kind: Any
    ) -> Any:
        sent = None if body is None else msgspec.json.encode(body)
        named = {name: value for name, value in headers.items() if value is not None}
        if sent is not None:
            named["Content-Type"] = "application/json"
        asked = {name: value for name, value in query.items() if value is not None}
        answer = await self._http.request(method, path, params=asked, content=sent, headers=named)
        if answer.status_code >= 400:
            raise Refused(answer.status_code, answer.json())
        if kind is None or answer.status_code == 204:
            return None
        if kind is bytes:
            return answer.content
        return msgspec.json.decode(answer.content, type=kind)
'''


def snake(name: str) -> str:
    """listJobs → list_jobs."""
    word = re.sub(r"[^0-9a-zA-Z]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)).lower().strip("_")
    return f"{word}_" if keyword.iskeyword(word) else word


class Writer:
    """Turns one document into one module."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract

    def module(self) -> str:
        """The whole text."""
        structs = [self._struct(name, schema) for name, schema in self._contract.schemas.items()]
        return HEAD + "".join(structs) + SHARED + "".join(map(self._method, self._contract.operations()))

    def _struct(self, name: str, schema: Node) -> str:
        if "properties" not in schema:
            return f"\n{name}: TypeAlias = {self.kind(schema, quoted=True)}\n"
        required = set(schema.get("required", ()))
        lines = [f"\n\nclass {name}(msgspec.Struct, kw_only=True, omit_defaults=True):\n"]
        lines.append(f'    """{_first_line(schema.get("description") or name)}"""\n\n')
        for key, value in schema["properties"].items():
            kind = self.kind(value, quoted=True)
            renamed = f'name="{key}"' if snake(key) != key else ""
            if key in required:
                after = f" = msgspec.field({renamed})" if renamed else ""
                lines.append(f"    {snake(key)}: {kind}{after}\n")
            else:
                default = f" = msgspec.field(default=None{', ' + renamed if renamed else ''})"
                lines.append(
                    f"    {snake(key)}: {kind} | None{default}\n"
                    if '"' not in kind
                    else f"    {snake(key)}: Any{default}\n"
                )
        return "".join(lines)

    def kind(self, schema: Node, *, quoted: bool = False) -> str:
        """The Python type of a schema."""
        name = referred(schema)
        if name is not None:
            return f'"{name}"' if quoted else name
        for several in ("oneOf", "anyOf"):
            if several in schema:
                kinds = list(dict.fromkeys(self.kind(each, quoted=quoted) for each in schema[several]))
                return "Any" if any('"' in each for each in kinds) and len(kinds) > 1 else " | ".join(kinds)
        if "const" in schema:
            return f"Literal[{schema['const']!r}]"
        if "enum" in schema:
            return f"Literal[{', '.join(repr(each) for each in schema['enum'])}]"
        kinds = types_of(schema)
        if len(kinds) > 1:
            return " | ".join(self.kind({**schema, "type": each}, quoted=quoted) for each in kinds)
        kind = kinds[0] if kinds else ""
        if kind == "array":
            return f"list[{self.kind(schema.get('items', {}), quoted=quoted)}]"
        if kind == "object":
            values = values_of(schema)
            return f"dict[str, {'Any' if values is None else self.kind(values, quoted=quoted)}]"
        return JSON_TYPES.get(kind, "Any")

    def _method(self, operation: Operation) -> str:
        places = operation.parameters
        body = self.kind(operation.bodies[JSON_MEDIA]) if JSON_MEDIA in operation.bodies else ""
        signature = ["self", *(f"{snake(each['name'])}: str" for each in places["path"])]
        if body:
            signature.append(f"body: {body}")
        optional = [*places["query"], *places["header"]]
        if optional:
            signature.append("*")
            signature += [
                f"{snake(each['name'])}: {self.kind(each.get('schema', {}))} | None = None" for each in optional
            ]
        answer = self._answer(operation)
        target = re.sub(r"{([^}:]+)[^}]*}", lambda found: "{" + snake(found[1]) + "}", operation.path)
        query = ", ".join(f'"{each["name"]}": {snake(each["name"])}' for each in places["query"])
        headers = ", ".join(f'"{each["name"]}": {snake(each["name"])}' for each in places["header"])
        return (
            f"\n    async def {snake(operation.name)}({', '.join(signature)}) -> {answer}:\n"
            f'        """{_first_line(operation.says)}"""\n'
            f'        return await self._ask("{operation.method.upper()}", {"f" if places["path"] else ""}"{target}", '
            f"{{{query}}}, {{{headers}}}, {'body' if body else 'None'}, {answer})\n"
        )

    def _answer(self, operation: Operation) -> str:
        for told in operation.answers.values():
            return self.kind(told[JSON_MEDIA]) if JSON_MEDIA in told else "bytes" if told else "None"
        return "None"


def _first_line(text: str) -> str:
    line = text.strip().splitlines()[0].replace('"', "'").replace("\\", "/") if text.strip() else "An operation."
    return line if line.endswith((".", "?", "!")) else f"{line}."
