"""The agent's model, at a port of its box: chat completions, answered by a configured provider. No key goes in.

It is the listener of coding sessions with another account: `[evolve] daily_tokens` and the day's budget of all work.
"""

import asyncio
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from coilclaw.agent.spending import spent_on
from coilclaw.features.evolve.desk_files import ask_desk
from coilclaw.features.runner.box_proxy import JSON, BoxProxy, ModelCall, head_of, length_of
from coilclaw.features.runner.model_http import BadHttp, BoxClient
from coilclaw.ledger.audit import add_event
from coilclaw.packets.canonical import Json
from coilclaw.packets.chat import ChatMessage, ChatRequest, ChatResponse, ProposedCall, ToolSpec
from coilclaw.packets.errors import ProviderError, TransportError
from coilclaw.store.tx import Tx
from coilclaw.store.usage import add_usage, day_began, tokens_since, usage_rows

if TYPE_CHECKING:
    from coilclaw.packets.ports import Provider
    from coilclaw.runtime.runtime import Runtime

ACCOUNT = "evolve"
"""Its usage, beside that of conversations."""


class _Function(msgspec.Struct, frozen=True):
    name: str
    arguments: str = "{}"
    description: str = ""
    parameters: dict[str, Json] = {}


class _FunctionCall(msgspec.Struct, frozen=True):
    id: str
    function: _Function


class _Part(msgspec.Struct, frozen=True):
    text: str


class _FunctionTool(msgspec.Struct, frozen=True):
    function: _Function


_Content: TypeAlias = "str | list[_Part] | None"


class _Message(msgspec.Struct, frozen=True):
    role: str
    content: "_Content" = None
    tool_calls: list[_FunctionCall] | None = None
    tool_call_id: str = ""


class _Asked(msgspec.Struct, frozen=True):
    messages: list[_Message]
    tools: list[_FunctionTool] = []
    max_tokens: int | None = None
    temperature: float | None = None


class EvolveModel(BoxProxy):
    """Answers one run of the agent."""

    def __init__(self, app: "Runtime", provider: "Provider") -> None:
        super().__init__(app, "completions", "The agent that works on itself")
        self._provider = provider
        self._failed = False
        """Whether the owner was told that it does not answer."""

    def _may_go(self, tokens: int) -> None:
        app, db = self._app, self._app.db.reader
        if app.estop.engaged():
            raise BadHttp(400, "ESTOP", "Everything is stopped (ESTOP). Clear it to go on.")
        today, more = day_began(app.clock()), tokens + self._reserved
        most = app.config.evolve.daily_tokens
        own = sum(row.input_tokens + row.output_tokens for row in usage_rows(db, today, "model", ACCOUNT))
        if most and own + more >= most:
            raise BadHttp(400, "BUDGET", f"Today's {most} tokens are used up. Raise evolve.daily_tokens to go on.")
        most = app.config.budgets.daily_tokens
        if tokens_since(db, today) + more >= most:
            raise BadHttp(400, "BUDGET", f"Today's budget of {most} tokens is used up. Raise budgets.daily_tokens.")

    def _is_running(self) -> bool:
        return True  # it ends with its box

    async def _call(self, client: BoxClient, call: ModelCall) -> None:
        request = _request(call.body)
        response = ChatResponse(final_text="", provider=self._provider.name)
        try:
            response = await self._provider.chat(request)
            self._failed = False
        except (ProviderError, TransportError) as error:
            self._tell_failure(error.message)
            raise BadHttp(502, "UPSTREAM", error.message) from error
        finally:  # whoever hangs up has asked all the same
            await asyncio.shield(asyncio.ensure_future(self._record(request, response)))
        data = self._app.redact(_answer(response)).encode()
        await client.write(head_of(200, [("content-type", JSON), length_of(data)]) + data)

    async def _record(self, request: ChatRequest, response: ChatResponse) -> None:
        spent = spent_on(request, response)

        def write(tx: Tx) -> None:
            add_usage(
                tx,
                self._app.clock,
                thread_id=ACCOUNT,
                turn_id=ACCOUNT,
                job_id=None,
                provider=spent.provider,
                model=spent.model,
                input_tokens=spent.input_tokens,
                output_tokens=spent.output_tokens,
                estimated=spent.estimated,
                cached_tokens=spent.cached_tokens,
            )

        await self._app.db.write(write)

    def _tell_failure(self, why: str) -> None:
        """Say it where `evolve up` runs, once; the agent looks up and tries again, and would never say so itself."""
        if not self._failed:
            self._failed = True
            text = f"The model of the agent that works on itself did not answer: {why} It tries again."
            ask_desk(self._app, {"kind": "notice", "severity": "warning", "text": text[:4000]})

    async def _tell_limit(self, limit: str) -> None:

        about: dict[str, Json] = {"limit": limit}
        await self._app.db.write(lambda tx: add_event(tx, self._app.clock, "evolve_limit", ACCOUNT, about))
        ask_desk(self._app, {"kind": "notice", "severity": "warning", "text": limit, "comms": True})


def _request(body: bytes) -> ChatRequest:
    try:
        asked = msgspec.json.decode(body, type=_Asked)
        messages = [_message(each) for each in asked.messages if each.role != "system"]
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise BadHttp(400, "BAD_BODY", f"this is not a chat completion request: {error}") from None
    return ChatRequest(
        system_prompt="\n\n".join(_text(each.content) for each in asked.messages if each.role == "system"),
        messages=tuple(messages),
        tools=tuple(
            ToolSpec(
                name=each.function.name, description=each.function.description, parameters=each.function.parameters
            )
            for each in asked.tools
        ),
        model="",  # the owner names the model, not the box
        temperature=asked.temperature,
        max_output_tokens=asked.max_tokens,
        metadata={"hint": "job"},
    )


def _message(each: _Message) -> ChatMessage:
    match each.role:
        case "user" | "assistant" | "tool":
            role = each.role
        case _:
            raise BadHttp(400, "BAD_BODY", f"there is no role {each.role!r:.40}")
    calls = each.tool_calls or [] if role == "assistant" else []
    return ChatMessage(
        role=role,
        content=_text(each.content),
        tool_calls=tuple(
            ProposedCall(call_id=one.id, tool=one.function.name, arguments=one.function.arguments) for one in calls
        ),
        tool_call_id=each.tool_call_id if role == "tool" else "",
    )


def _text(content: "_Content") -> str:
    if content is None:
        return ""
    return content if isinstance(content, str) else "\n".join(part.text for part in content)


def _answer(response: ChatResponse) -> str:
    calls: list[Json] = [
        {
            "id": call.call_id or f"call_{number}",
            "type": "function",
            "function": {"name": call.tool, "arguments": call.arguments},
        }
        for number, call in enumerate(response.tool_calls)
    ]
    message: dict[str, Json] = {"role": "assistant", "content": response.final_text or None}
    if calls:
        message["tool_calls"] = calls
    finish = "tool_calls" if calls else response.finish_reason or "stop"
    usage = response.usage
    answer: dict[str, Json] = {
        "object": "chat.completion",
        "model": response.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": None
        if usage is None
        else {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens},
    }
    return msgspec.json.encode(answer).decode()
