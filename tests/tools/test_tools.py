"""The built-in tools, through the gate."""

import msgspec
import pytest

from coilclaw.airlock.fake import FakeTransport
from coilclaw.config import CliChannel
from coilclaw.packets.http import HttpResponse
from coilclaw.packets.ports import Touches
from coilclaw.sandbox.fake_box import finished
from coilclaw.tools.builtin import builtin_tools
from coilclaw.tools.declare import registry, tool
from coilclaw.tools.time import TimeArgs, time

TOOLS = builtin_tools()


def page(body, status=200, kind="text/html", url="https://ok.example/"):
    return HttpResponse(status=status, headers=(("content-type", kind),), body=body, url=url)


def listed(sample, answers, **more):
    home = sample(security__allowed_domains=("ok.example",), **more)
    home.app.__dict__["transport"] = FakeTransport(answers, listing=home.app.listing)
    return home


@pytest.mark.parametrize("each", TOOLS.values(), ids=list(TOOLS))
def test_every_tool_has_a_schema_a_sentence_and_a_stable_declaration(each):
    assert each.parameters["type"] == "object"
    assert each.parameters["additionalProperties"] is False
    assert each.description.endswith(".")
    assert each.declaration_hash == builtin_tools()[each.name].declaration_hash


@pytest.mark.parametrize("each", TOOLS.values(), ids=list(TOOLS))
def test_every_tool_refuses_unknown_arguments(each):
    with pytest.raises(msgspec.ValidationError):
        each.parse(b'{"surprise":1}')


def test_two_tools_of_one_name_are_a_mistake():
    with pytest.raises(ValueError, match="two tools are named time"):
        registry([time, time])


def test_nothing_a_tool_declares_has_a_default():
    with pytest.raises(TypeError):
        tool(TimeArgs, effect="READ", destination="internal", idempotent=True, touches=lambda _: Touches())


async def test_time_tells_local_utc_and_zone(sample):
    output = (await sample().call("time")).result.output
    assert "local:" in output
    assert "utc:" in output
    assert "timezone:" in output


async def test_a_file_that_is_not_text_is_reported(sample):
    home = sample()
    (home.workspace / "x.bin").write_bytes(b"\xff\xfe\x00")
    assert (await home.call("file_read", path="x.bin")).result.code == "FILE_NOT_TEXT"


async def test_a_long_listing_is_cut_with_a_word(sample):
    home = sample()
    for number in range(510):
        (home.workspace / f"f{number:04d}").touch()
    assert "only the first 500" in (await home.call("file_list", path=".")).result.output


async def test_the_shell_reports_output_errors_and_exit_code(sample):
    home = sample(security__autonomy="full")
    home.box._answer = lambda _: finished(b"out\n", stderr=b"err\n", exit_code=3)
    outcome = await home.call("shell", command="ls")
    assert outcome.result.output == "out\n\n[stderr]\nerr\n\n[exit 3]"
    assert (outcome.result.success, outcome.result.exit, outcome.result.code) == (False, 3, "EXIT_NONZERO")
    assert (outcome.result.stdout, outcome.result.stderr) == ("out\n", "err\n")


@pytest.mark.parametrize(
    ("err", "told"), [(b"npm error code ENOTCACHED", True), (b"curl: Could not resolve host: a.example", True),
                      (b"AssertionError: 1 != 2", False)],
)  # fmt: skip
async def test_a_command_that_misses_the_network_is_told_how_to_ask_for_it(sample, err, told):
    home = sample(security__autonomy="full")
    home.box._answer = lambda _: finished(b"", stderr=err, exit_code=1)
    outcome = await home.call("shell", command="ls")
    assert ("name them in `domains`" in outcome.result.output) is told


async def test_each_stream_of_a_command_is_redacted_by_itself(sample):
    home = sample(security__autonomy="full")
    secret = "sk-ant-" + "a1B2c3D4e5F6" * 4
    home.box._answer = lambda _: finished(f"key {secret}\n".encode(), stderr=f"again {secret}\n".encode())
    result = (await home.call("shell", command="ls")).result
    assert "key " in (result.stdout or "")
    assert "again " in (result.stderr or "")
    assert secret not in f"{result.output}{result.stdout}{result.stderr}"


async def test_http_gets_listed_domains_and_marks_what_it_got(sample):
    home = listed(sample, {"https://ok.example/x": page(b"hello", kind="text/plain")})
    outcome = await home.call("http", url="https://ok.example/x")
    assert "hello" in outcome.result.output
    assert outcome.result.label == "untrusted:ok.example"


async def test_http_to_an_unlisted_domain_is_denied(sample):
    home = listed(sample, {})
    assert (await home.call("http", url="https://evil.example/")).result.code == "NOT_LISTED"
    assert home.receipts()[0].status == "denied"


async def test_an_http_error_is_a_failed_receipt(sample):
    home = listed(sample, {"https://ok.example/x": page(b"no", status=404)})
    await home.call("http", url="https://ok.example/x")
    assert (home.receipts()[0].status, home.receipts()[0].code) == ("failed", "HTTP_404")


async def test_a_page_is_read_as_text_without_its_scripts(sample):
    html = b"<html><head><title>T</title><script>evil()</script></head><body><p>Readable words.</p><img src=x></body>"
    home = listed(sample, {"https://pub.example/p": page(html, url="https://pub.example/p")})
    outcome = await home.call("web_open", url="https://pub.example/p")
    assert "Readable words." in outcome.result.output
    assert "evil()" not in outcome.result.output
    assert outcome.result.label == "untrusted:pub.example"


async def test_web_search_is_off_until_configured_and_says_so(sample):
    outcome = await sample().call("web_search", query="x")
    assert outcome.result.code == "SEARCH_OFF"
    assert "[web_search]" in outcome.result.output


async def test_web_search_asks_the_configured_server_with_its_key(sample):
    from coilclaw.config import WebSearch

    url = "https://api.search.brave.com/res/v1/web/search?q=red%20pandas&format=json"
    answer = page(
        b'{"web":{"results":[{"title":"T","url":"https://x.example","description":"D"}]}}', kind="application/json"
    )
    home = listed(
        sample,
        {url: answer},
        web_search=WebSearch(kind="brave", api_key_env="SEARCH_KEY"),
        environ={"SEARCH_KEY": "k3y-abcdef-123456"},
    )
    outcome = await home.call("web_search", query="red pandas")
    assert "https://x.example" in outcome.result.output
    assert outcome.result.label == "untrusted:api.search.brave.com"
    assert home.app.transport.seen[0].headers == (("X-Subscription-Token", "k3y-abcdef-123456"),)


async def test_memory_search_finds_other_conversations(sample):
    from tests.agent.test_loop import turn

    home = sample()
    home.script({"text": "noted"})
    await turn(home, "the aardvark adapter is blue", thread="conv_a")
    assert "aardvark" in (await home.call("memory_search", query="aardvark")).result.output
    assert (await home.call("memory_search", key="k2", query="zebra")).result.output == "Nothing found."


async def test_with_nobody_there_a_question_fails(sample):
    assert (await sample().call("ask_user", question="Which?")).result.code == "NOBODY_THERE"


async def test_undo_asks_and_brings_back(sample):
    home = sample(security__autonomy="full")
    (home.workspace / "notes.txt").write_text("precious")
    await home.call("file_write", path="notes.txt", content="gone")
    outcome = await home.call("undo")
    assert len(home.owner.cards) == 1
    assert "notes.txt" in outcome.result.output
    assert (home.workspace / "notes.txt").read_text() == "precious"


# Whose tools there are


def knock_tool():
    async def knock(_args, _context):
        """Knocks."""
        raise AssertionError

    return tool(
        TimeArgs,
        effect="READ",
        destination="local",
        idempotent=True,
        always_ask=False,
        touches=lambda _: Touches(),
        summary=lambda _: "knock",
    )(knock)


def test_a_feature_brings_its_tools(sample):
    home = sample()
    home.app.extensions = msgspec.structs.replace(home.app.extensions, tools=lambda _: (knock_tool(),))
    assert "knock" in home.app.tools
    assert "knock" in home.app.allowed_tools
    assert "sop_approval" not in home.app.allowed_tools


def test_an_unknown_tool_in_the_allowlist_is_a_warning_because_a_plugin_may_bring_it(sample):
    home = sample(channels__cli=CliChannel(tools_allow=("time", "file_reed")))
    assert home.app.allowed_tools == {"time", "file_reed"}
    warned = [fields["message"] for event, fields in home.events if event == "warning"]
    (words,) = warned
    assert words.startswith("channels.cli.tools_allow: there is no tool file_reed. Did you mean file_read")
