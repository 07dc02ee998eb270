"""A loopback model server that ships with the package: speaks Google's generateContent.

SCENES lists the marks it knows, fake_server.py says how they work. `python -m coilclaw.sandbox.fake_generate` runs it.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from coilclaw.packets.canonical import Json, JsonObject, NotCanonical, parse_json
from coilclaw.sandbox.fake_server import COMMON, MARK, Exchange, FakeModelServer, Handler, play, raw, serve, words

_STOP = {"stop": "STOP", "length": "MAX_TOKENS"}
_STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}


class FakeGenerate(FakeModelServer):
    """Speaks POST /models/M:generateContent, :streamGenerateContent and :countTokens."""

    prefix = "/v1beta"

    def asked_at(self, path: str) -> bool:
        """Whether a question may be sent to this path under the base URL."""
        model, _, what = path.removeprefix("/models/").partition(":")
        return path.startswith("/models/") and bool(model) and what in ("generateContent", "streamGenerateContent")

    def play(self, handler: Handler, body: JsonObject, before: int) -> None:
        """Answer a question by the scene that its last user message names."""
        play(GenerateExchange(handler, self, body, before), SCENES)

    def counts(self, handler: Handler, body: JsonObject) -> bool:
        """POST /models/M:countTokens."""
        del body
        if not handler.path.endswith(":countTokens"):
            return False
        handler.send_json(200, {"totalTokens": 10})
        return True

    def key_in(self, headers: Mapping[str, str]) -> str:
        """The key that a request brought."""
        return headers.get("x-goog-api-key", "")


class GenerateExchange(Exchange):
    """One request for content."""

    def __init__(self, handler: Handler, fake: FakeModelServer, body: JsonObject, before: int) -> None:
        super().__init__(handler, fake, body, before)
        path = handler.path.partition("?")[0]
        self.model = path.rpartition("/")[2].partition(":")[0]
        self.stream = path.endswith(":streamGenerateContent")
        for content in _objects(body.get("contents")):
            parts = _objects(content.get("parts"))
            said = " ".join(str(part["text"]) for part in parts if "text" in part)
            results = [str(part["functionResponse"]) for part in parts if "functionResponse" in part]
            if content.get("role") != "user" and not results:
                continue
            if results and not MARK.search(said):
                said = ""
            self.results = [] if said else [*self.results, *results]
            self.said = said or self.said

    def say(self, text: str, finish: str = "stop") -> None:
        """Text, streamed word by word."""
        self.answer([{"text": word} for word in words(text)], _STOP.get(finish, finish))

    def propose(self, calls: Sequence[tuple[str, str]]) -> None:
        """Calls, each in a piece of its own."""
        self.answer([{"functionCall": {"name": name, "args": _value(given)}} for name, given in calls], "STOP")

    def answer(self, parts: Sequence[JsonObject], finish: str) -> None:
        """Content of these parts."""
        if not self.stream:
            return self.handler.send_json(200, self.chunk(parts, finish))
        pieces = [self.chunk([part], "") for part in parts[:-1]]
        return self.handler.send_events(
            [*map(msgspec.json.encode, pieces), msgspec.json.encode(self.chunk(parts[-1:], finish))]
        )

    def half(self, text: str) -> list[bytes]:
        """The events of a stream up to this text."""
        return [msgspec.json.encode(self.chunk([{"text": text}], ""))]

    def chunk(self, parts: Sequence[JsonObject], finish: str) -> JsonObject:
        """One piece of a stream, or all of an answer; counts are totals so far."""
        candidate: dict[str, Json] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
        if finish:
            candidate["finishReason"] = finish
        return {
            "candidates": [candidate],
            "usageMetadata": {
                "promptTokenCount": 10,
                "cachedContentTokenCount": 4,
                "candidatesTokenCount": 4 if finish else 1,
                "thoughtsTokenCount": 1 if finish else 0,
                "totalTokenCount": 15 if finish else 11,
            },
            "modelVersion": self.model,
        }

    def fail(
        self, status: int, text: str, kind: str = "server_error", headers: Mapping[str, str] | None = None
    ) -> None:
        """An error object."""
        del kind
        error: JsonObject = {"code": status, "message": text, "status": _STATUS.get(status, "INTERNAL")}
        self.handler.send_json(status, {"error": error}, headers)


def _objects(value: Json) -> list[JsonObject]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _value(arguments: str) -> Json:
    try:
        return parse_json(arguments)
    except NotCanonical:
        return {}


SCENES: dict[str, Callable[[GenerateExchange, str], None]] = {
    **COMMON,
    "refusal": lambda exchange, _: exchange.say("I will not.", "SAFETY"),
    "wrong_shape": raw(b'{"candidates": [{"content": 7}]}'),
}
"""What a mark can ask for."""


if __name__ == "__main__":
    serve(FakeGenerate, "coilclaw.sandbox.fake_generate")
