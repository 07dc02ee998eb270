"""A call makes the requests it declared, each once, and no others."""

import msgspec
import pytest

from coilclaw.airlock.fake import FakeTransport
from coilclaw.config.schema import Webhook
from coilclaw.packets.action import INTERNAL
from coilclaw.packets.canonical import canonical_bytes
from coilclaw.packets.errors import ToolError
from coilclaw.packets.http import FetchRequest, HttpResponse, SendTarget
from coilclaw.packets.ports import Context, ToolOutput, Touches
from coilclaw.tools.declare import Declared
from coilclaw.tools.time import TimeArgs

PAGE = FetchRequest(purpose="read", principal="http", method="GET", url="https://ok.example/x")
HOOK = "https://hook.example/in"
DOOR = SendTarget(
    name="door",
    url=HOOK,
    key_header="Idempotency-Key",
    deduplicates=False,
    lookup_url="https://hook.example/seen/{key}",
    timeout_seconds=5.0,
)
MESSAGE = FetchRequest(purpose="effect", principal="webhook", method="POST", url=HOOK, target=DOOR, body=b"hello")
LOOKUP = FetchRequest(purpose="lookup", principal="webhook", method="GET", url=DOOR.lookup_url, target=DOOR)


def other(request, **changed):
    return msgspec.structs.replace(request, **changed)


def answer(url, status=200, **headers):
    return HttpResponse(status=status, headers=tuple(headers.items()), body=b"ok", url=url)


def calling(sample, declared, *made, effect="READ", idempotent=True):
    """A home with a tool that declares some requests and then makes others."""

    async def own(args, context):
        """Make requests."""
        for request in made:
            response = await context.fetch(request)
        return ToolOutput(text=f"{response.status}", label=INTERNAL)

    home = sample(
        security__allowed_domains=("ok.example",),
        security__autonomy="full",
        webhooks={"door": Webhook(url=HOOK, lookup_url=DOOR.lookup_url)},
        channels__cli=msgspec.structs.replace(sample().app.config.channels.cli, tools_allow=("own",)),
    )
    home.app.tools["own"] = Declared(
        own,
        TimeArgs,
        effect=effect,
        destination="external",
        idempotent=idempotent,
        always_ask=False,
        touches=lambda _: Touches(requests=declared),
        summary=lambda _: "Make requests.",
    )
    answers = {url: answer(url) for url in (HOOK, "https://hook.example/seen/k%2F1", "https://ok.example/y")}
    answers[PAGE.url] = answer(PAGE.url, 302, location="https://ok.example/y")
    home.app.__dict__["transport"] = FakeTransport(answers, listing=home.app.listing)
    return home


async def test_declared_request_is_made(sample):
    home = calling(sample, (PAGE,), PAGE)
    assert (await home.call("own")).result.output == "302"
    (seen,) = home.app.transport.seen
    assert (seen.method, seen.url, seen.principal) == ("GET", PAGE.url, "http")


@pytest.mark.parametrize(
    "request_",
    [
        other(PAGE, url="https://other.example/x"),
        other(PAGE, url="https://ok.example/y"),
        other(PAGE, url="https://ok.example/x?q=1"),
        other(PAGE, method="POST"),
        other(PAGE, method="POST", purpose="effect", body=b"secret"),
        other(PAGE, principal="provider"),
        LOOKUP,
    ],
    ids=["host", "path", "query", "method", "body", "principal", "target"],
)
async def test_undeclared_request_is_refused_and_nothing_leaves(sample, request_):
    home = calling(sample, (PAGE,), request_)
    assert (await home.call("own")).receipt.code == "NOT_GRANTED"
    assert home.app.transport.seen == []


async def test_redirect_is_not_a_new_grant(sample):
    home = calling(sample, (PAGE,), PAGE, other(PAGE, url="https://ok.example/y"))
    assert (await home.call("own")).receipt.code == "NOT_GRANTED"
    assert [seen.url for seen in home.app.transport.seen] == [PAGE.url]


async def test_declared_request_is_made_once(sample):
    home = calling(sample, (PAGE,), PAGE, PAGE)
    assert (await home.call("own")).receipt.code == "NOT_GRANTED"
    assert len(home.app.transport.seen) == 1


async def test_call_that_declared_nothing_reaches_nothing(sample):
    home = calling(sample, (), PAGE)
    assert (await home.call("own")).receipt.code == "NOT_GRANTED"
    assert home.app.transport.seen == []


async def test_context_without_a_grant_refuses_every_request(clock):
    bare = Context(source="cli", thread_id="", clock=clock, idempotency_key="k", timeout_seconds=1)
    with pytest.raises(ToolError) as caught:
        await bare.fetch(PAGE)
    assert caught.value.code == "NOT_GRANTED"


async def test_message_and_lookup_carry_the_key(sample):
    home = calling(sample, (MESSAGE, LOOKUP), LOOKUP, MESSAGE, effect="EXFILTRATION", idempotent=False)
    assert (await home.call("own", key="k/1")).receipt.status == "allowed"
    looked, sent = home.app.transport.seen
    assert (looked.method, looked.url, looked.headers) == ("GET", "https://hook.example/seen/k%2F1", ())
    assert (sent.method, sent.url, sent.body) == ("POST", HOOK, b"hello")
    assert sent.headers == (("Idempotency-Key", "k/1"),)


async def test_another_message_than_the_declared_one_is_not_sent(sample):
    home = calling(sample, (MESSAGE,), other(MESSAGE, body=b"bye"), effect="EXFILTRATION", idempotent=False)
    assert (await home.call("own")).receipt.code == "NOT_GRANTED"
    assert home.app.transport.seen == []


async def test_refusal_after_the_effect_does_not_deny_the_effect(sample):
    home = calling(sample, (MESSAGE,), MESSAGE, MESSAGE, effect="EXFILTRATION", idempotent=False)
    receipt = (await home.call("own")).receipt
    assert (receipt.status, receipt.code) == ("unknown", "NOT_GRANTED")
    assert len(home.app.transport.seen) == 1


def test_webhook_declares_the_bytes_it_sends(sample):
    home = calling(sample, ())
    tool = home.app.tools["webhook_send"]
    message, lookup = tool.touches(tool.parse(b'{"target":"door","payload":{"b":1,"a":2}}')).requests
    assert (message.purpose, message.method, message.url) == ("effect", "POST", HOOK)
    assert message.body == canonical_bytes({"a": 2, "b": 1})
    assert (lookup.purpose, lookup.method, lookup.url) == ("lookup", "GET", DOOR.lookup_url)


@pytest.mark.parametrize("second", [PAGE, MESSAGE, other(LOOKUP, target=other(DOOR, name="window"))])
def test_second_request_beside_the_judged_one_cannot_be_declared(second):
    with pytest.raises(ValueError, match="declares one request"):
        Touches(requests=(MESSAGE, second))


def test_request_to_a_named_target_goes_nowhere_else():
    with pytest.raises(ValueError, match="does not go to door"):
        other(MESSAGE, url="https://other.example/")
