"""A model that ships with the package, for proving coding programs: its first answer is a tool call with a command, and
once it is told what came of that, it is done. It speaks all three wires, to whoever connects."""

import asyncio
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Asked = Mapping[str, Any]
Event = tuple[str, dict[str, Any]]


class ScriptedModel:
    """Serves one box's model port, in the wire of whoever asks."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.requests: list[str] = []
        """The paths that were asked for."""
        self.told = asyncio.Event()
        """The program has told what came of the command."""

    async def serve(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request."""
        del port
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await _body(reader, fields)
        method, path, _ = first.split(" ")
        self.requests.append(path)
        asked: dict[str, Any] = json.loads(body) if body else {}
        kind, data = self.answer(method, path.partition("?")[0], asked)
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
            % (kind.encode(), len(data))
        )
        if method != "HEAD":
            writer.write(data)
        await writer.drain()

    def answer(self, method: str, path: str, asked: Asked) -> tuple[str, bytes]:
        """The media type of an answer, and the answer."""
        if method == "POST" and path.endswith("/responses"):
            return "text/event-stream", _events(self.responses(asked))
        if method == "POST" and path.endswith("/messages"):
            return self.messages(asked)
        if method == "POST" and "GenerateContent" in path:
            return "text/event-stream", _events([("", self.generated(asked))])
        if method == "POST" and "generateContent" in path:
            return "application/json", json.dumps(self.generated(asked)).encode()
        known: dict[str, Any] = {"object": "list", "data": [], "models": [], "input_tokens": 10, "totalTokens": 10}
        return "application/json", json.dumps(known).encode()

    def responses(self, asked: Asked) -> Iterator[Event]:
        """The Responses wire."""
        done = any(str(item.get("type", "")).endswith("_call_output") for item in asked.get("input", []))
        item = {
            "type": "message",
            "id": "m1",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Done."}],
        }
        if done:
            self.told.set()
        else:
            names = {tool.get("name") for tool in asked.get("tools", [])}
            name, field = ("exec_command", "cmd") if "exec_command" in names else ("shell_command", "command")
            given = json.dumps({field: self.command})
            item = {"type": "function_call", "id": "f1", "call_id": "call_1", "name": name, "arguments": given}
        usage = {
            "input_tokens": 9, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 12,
        }  # fmt: skip
        yield "response.created", {"response": {"id": "r1"}}
        yield "response.output_item.added", {"output_index": 0, "item": item}
        yield "response.output_item.done", {"output_index": 0, "item": item}
        yield "response.completed", {"response": {"id": "r1", "output": [item], "usage": usage}}

    def messages(self, asked: Asked) -> tuple[str, bytes]:
        """The Messages wire."""
        names = {tool.get("name") for tool in asked.get("tools", [])}
        blocks = [block for each in asked["messages"] if isinstance(each["content"], list) for block in each["content"]]
        done = any(block.get("type") == "tool_result" for block in blocks)
        block: dict[str, Any] = {"type": "text", "text": "Done."}
        if done:
            self.told.set()
        elif "Bash" in names:
            block = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": self.command}}
        stop = "end_turn" if block["type"] == "text" else "tool_use"
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"], "content": [block],
            "stop_reason": stop, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 3},
        }  # fmt: skip
        if not asked.get("stream"):
            return "application/json", json.dumps(message).encode()
        start: dict[str, Any] = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
        delta = (
            {"type": "text_delta", "text": "Done."}
            if block["type"] == "text"
            else {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        )
        return "text/event-stream", _events(
            [
                ("message_start", {"message": {**message, "content": [], "stop_reason": None}}),
                ("content_block_start", {"index": 0, "content_block": start}),
                ("content_block_delta", {"index": 0, "delta": delta}),
                ("content_block_stop", {"index": 0}),
                (
                    "message_delta",
                    {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 3}},
                ),
                ("message_stop", {}),
            ]
        )

    def generated(self, asked: Asked) -> dict[str, Any]:
        """The generateContent wire."""
        parts = [part for each in asked.get("contents", []) for part in each.get("parts", [])]
        part: dict[str, Any] = {"text": "Done."}
        if any("functionResponse" in each for each in parts):
            self.told.set()
        elif asked.get("tools"):
            part = {"functionCall": {"name": "run_shell_command", "args": {"command": self.command}}}
        return {
            "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12},
        }


def _events(events: Iterable[Event]) -> bytes:
    text = ""
    for name, data in events:
        text += f"event: {name}\n" if name else ""
        text += f"data: {json.dumps({'type': name, **data} if name else data)}\n\n"
    return text.encode()


async def _body(reader: asyncio.StreamReader, fields: Mapping[str, str]) -> bytes:
    if fields.get("transfer-encoding", "").lower() == "chunked":
        body = b""
        while length := int((await reader.readline()).strip() or b"0", 16):
            body += await reader.readexactly(length)
            await reader.readline()
        await reader.readline()
    else:
        body = await reader.readexactly(int(fields.get("content-length", 0)))
    return gzip.decompress(body) if fields.get("content-encoding") == "gzip" else body
