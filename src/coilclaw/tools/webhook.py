"""webhook_send: a message to a target that the owner configured. It leaves this machine, so it always asks."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from coilclaw.packets.action import untrusted
from coilclaw.packets.canonical import Json, canonical_bytes
from coilclaw.packets.errors import EffectUncertain, ToolError, TransportError, TryLater
from coilclaw.packets.http import FetchRequest, HttpResponse, SendTarget
from coilclaw.packets.ports import Context, Recovery, ToolOutput, Touches
from coilclaw.tools.declare import Declared

SHOWN = 4096
MAX_BODY = 1 << 20
_NOT_TAKEN = (425, 429)
"""Statuses that mean the request was not accepted. Others may come from a proxy whose receiver accepted it and then
broke off: they leave the outcome uncertain."""


class WebhookArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of webhook_send."""

    target: Annotated[str, msgspec.Meta(description="The name of a configured webhook.", min_length=1, max_length=64)]
    payload: Annotated[dict[str, Any], msgspec.Meta(description="A JSON object to send.")] = {}
    file: Annotated[
        str, msgspec.Meta(description="A workspace file to send instead of a payload.", max_length=4096)
    ] = ""


class WebhookSend(Declared[WebhookArgs]):
    """The tool over the owner's targets. Its declaration contains them, so a changed target needs a new approval."""

    def __init__(self, targets: Mapping[str, SendTarget]) -> None:
        super().__init__(
            self.webhook_send,
            WebhookArgs,
            effect="EXFILTRATION",
            destination="external",
            idempotent=False,
            always_ask=False,
            touches=self._touch,
            summary=self._sum_up,
        )
        self._targets = dict(targets)

    def parse(self, args: bytes) -> WebhookArgs:
        """The typed arguments; an unknown target is invalid."""
        parsed = super().parse(args)
        if parsed.target not in self._targets:
            known = ", ".join(sorted(self._targets)) or "none; add [webhooks.NAME] to config.toml"
            raise msgspec.ValidationError(f"there is no webhook named {parsed.target!r} (configured: {known})")
        if parsed.file and parsed.payload:
            raise msgspec.ValidationError("send a payload or a file, not both")
        return parsed

    def recovery(self, args: msgspec.Struct) -> Recovery:
        """Repeat if the receiver deduplicates, look up if it offers that, otherwise leave it to the owner."""
        target = self._target(args)
        if target.deduplicates:
            return "repeat"
        return "lookup" if target.lookup_url else "owner"

    async def webhook_send(self, args: WebhookArgs, context: Context) -> ToolOutput:
        """Send a JSON object or a workspace file to one of the owner's webhooks."""
        message = self._message(args)
        size = len(context.inputs[0] if message.body is None else message.body)
        if size > MAX_BODY:
            raise ToolError(f"{size} bytes are more than the {MAX_BODY} that are sent.", code="TOO_LARGE", begun=False)
        try:
            response = await context.fetch(message)
        except TransportError as error:
            if not error.sent:
                raise TryLater(f"{args.target} could not be reached: {error.message}", code="NO_CONNECTION") from error
            raise EffectUncertain(f"{args.target} was sent the request, but did not answer: {error.message}") from error
        return _answer(args.target, response)

    async def lookup(self, args: msgspec.Struct, context: Context) -> bool | None:
        """Whether the receiver knows the key."""
        target = self._target(args)
        if not target.lookup_url:
            return None
        try:
            response = await context.fetch(_lookup(target))
        except TransportError:
            return None
        return {200: True, 404: False}.get(response.status)

    def _declared(self) -> dict[str, Json]:
        """An approval binds everything the owner configured."""
        return {**super()._declared(), "targets": msgspec.to_builtins(self._targets)}

    def _target(self, args: msgspec.Struct) -> SendTarget:
        assert isinstance(args, WebhookArgs)  # noqa: S101 - only parse() makes them
        return self._targets[args.target]

    def _touch(self, args: WebhookArgs) -> Touches:
        target = self._targets[args.target]
        files = (args.file,) if args.file else ()
        looks = (_lookup(target),) if target.lookup_url else ()
        return Touches(reads=files, inputs=files, requests=(self._message(args), *looks))

    def _message(self, args: WebhookArgs) -> FetchRequest:
        """The body: the payload's canonical bytes, or the file as it was when hashed."""
        target = self._targets[args.target]
        return FetchRequest(
            purpose="effect",
            principal="webhook",
            method="POST",
            url=target.url,
            target=target,
            content_type="application/octet-stream" if args.file else "application/json",
            body=None if args.file else canonical_bytes(args.payload),
        )

    def _sum_up(self, args: WebhookArgs) -> str:
        what = f"the file {args.file}" if args.file else f"{len(canonical_bytes(args.payload))} bytes of JSON"
        return f"Send {what} to the webhook {args.target} ({self._targets[args.target].url})."


def _lookup(target: SendTarget) -> FetchRequest:
    return FetchRequest(purpose="lookup", principal="webhook", method="GET", url=target.lookup_url, target=target)


def _answer(target: str, response: HttpResponse) -> ToolOutput:
    if response.status in _NOT_TAKEN:
        raise TryLater(f"{target} answered {response.status}: not now.", code=f"HTTP_{response.status}")
    if response.status == 408 or response.status >= 500:
        raise EffectUncertain(f"{target} answered {response.status}.", code=f"HTTP_{response.status}")
    host = response.url.partition("://")[2].partition("/")[0]
    success = 200 <= response.status < 300
    said = response.body[:SHOWN].decode("utf-8", "replace")
    return ToolOutput(
        text=f"{target} answered {response.status}.\n\n{said}".rstrip(),
        label=untrusted(host) if said.strip() else "internal",
        success=success,
        code="" if success else f"HTTP_{response.status}",
        metadata={"status": response.status, "bytes": len(response.body)},
    )
