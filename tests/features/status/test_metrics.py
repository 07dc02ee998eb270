"""Metrics: counted from the rows, whoever wrote them; measured in this process where nothing is written."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from coilclaw.config import MockModel, OpenAIModel
from coilclaw.features.chat.agent import agent_of
from coilclaw.features.chat.post_message import post
from coilclaw.ledger.totals import Totals, load_totals
from coilclaw.packets.box import BoxResult
from coilclaw.packets.card import Answer, nobody
from coilclaw.packets.errors import ProviderError
from coilclaw.runtime import Runtime
from coilclaw.runtime.provider_test import try_provider
from coilclaw.sandbox.fake_box import FakeBox
from tests.server.house import house


async def scraped(site):
    """Every sample of the page by name, and in it by its labels."""
    answer = await site.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = {}
    for family in text_string_to_metric_families(answer.text):
        for each in family.samples:
            found.setdefault(each.name, {})[tuple(sorted(each.labels.items()))] = each.value
    return found


def labels(**names):
    return tuple(sorted(names.items()))


async def talk(app, text="hello", thread="conv_1"):
    return await post(agent_of(app, app.conveyor(nobody)), app, thread, text, None)


async def test_calls_and_denials_are_counted_from_the_receipts(sample):
    home = sample()
    async with house(home) as site:
        for _ in range(3):
            await home.call("time")
        await home.call("file_read", path="/etc/passwd")
        await home.call("file_write", path="a.txt", content="x")
        found = await scraped(site)
        calls = found["coilclaw_tool_calls_total"]
        assert calls[labels(tool="time", status="allowed")] == 3
        assert calls[labels(tool="file_read", status="denied")] == 1
        assert calls[labels(tool="file_write", status="allowed")] == 1
        assert found["coilclaw_tool_denials_total"] == {labels(code="PATH_FORBIDDEN"): 1}
        assert found["coilclaw_receipt_chain_valid"] == {(): 1}


async def test_what_has_not_happened_yet_is_zero_not_absent(sample):
    async with house(sample()) as site:
        found = await scraped(site)
        assert found["coilclaw_tool_calls_total"][labels(tool="shell", status="allowed")] == 0
        for name in ("conversations", "tool_calls", "tool_denials", "provider_errors"):
            assert found[f"coilclaw_{name}_total"]
            assert not any(found[f"coilclaw_{name}_total"].values())


async def test_what_another_process_does_counts_too_and_a_restart_loses_nothing(sample):
    home = sample()
    other = Runtime(home.home, home.app.config, home.environ, lambda *_: None)
    try:
        await home.call("time")
        async with house(home) as site:
            assert (await scraped(site))["coilclaw_tool_calls_total"][labels(tool="time", status="allowed")] == 1
            conveyor = other.conveyor(nobody)
            home.app, mine = other, home.app
            await home.call("time", key="other-1")
            home.app = mine
            conveyor.close()
            assert (await scraped(site))["coilclaw_tool_calls_total"][labels(tool="time", status="allowed")] == 2
        kept = load_totals(home.app.db.reader)
        assert (kept.receipts, kept.calls) == (2, {"allowed time": 2})
        async with house(home) as site:
            again = await scraped(site)
            assert again["coilclaw_tool_calls_total"][labels(tool="time", status="allowed")] == 2
            assert load_totals(home.app.db.reader) == kept
    finally:
        other.close()


async def test_a_record_of_totals_that_cannot_be_read_is_made_again(sample):
    home = sample()
    await home.call("time")
    await home.app.db.write(lambda tx: tx.execute("INSERT INTO meta VALUES ('totals', '{\"receipts\": \"x\"}')"))
    assert load_totals(home.app.db.reader) == Totals()
    async with house(home) as site:
        assert (await scraped(site))["coilclaw_tool_calls_total"][labels(tool="time", status="allowed")] == 1


async def test_names_that_a_model_makes_up_do_not_pile_up(sample):
    home = sample()
    async with house(home) as site:
        for number in range(30):
            await home.call(f'made_up_{number}"\n', key=f"k{number}")
        found = await scraped(site)
        counted = {name: number for name, number in found["coilclaw_tool_calls_total"].items() if number}
        assert counted == {labels(tool="other", status="denied"): 30}
        assert found["coilclaw_tool_denials_total"] == {labels(code="TOOL_UNKNOWN"): 30}


async def test_conversations_are_counted_when_they_begin(sample):
    home = sample()
    async with house(home) as site:
        assert (await scraped(site))["coilclaw_conversations_total"] == {(): 0}
        for thread in ("conv_1", "conv_1", "conv_2"):
            await talk(home.app, thread=thread)
        assert (await scraped(site))["coilclaw_conversations_total"] == {(): 2}
        await home.app.db.write(lambda tx: tx.execute("DELETE FROM threads WHERE thread_id = 'conv_1'"))
        await talk(home.app, thread="conv_3")
        assert (await scraped(site))["coilclaw_conversations_total"] == {(): 3}


async def test_providers_are_timed_and_their_failures_counted(sample):
    models = {"local": MockModel(), "dead": OpenAIModel(base_url="http://127.0.0.1:9/v1", model="m", max_retries=0)}
    home = sample(providers__models=models)
    async with house(home) as site:
        await talk(home.app)
        with pytest.raises(ProviderError):
            await try_provider(home.app, "dead")
        found = await scraped(site)
        assert found["coilclaw_provider_seconds_count"] == {labels(provider="local"): 1}
        assert found["coilclaw_provider_errors_total"] == {labels(provider="dead"): 1, labels(provider="local"): 0}


async def test_decisions_are_timed(sample):
    home = sample()
    async with house(home) as site:
        for _ in range(4):
            await home.call("time")
        found = await scraped(site)
        assert found["coilclaw_decision_seconds_count"] == {(): 4}
        assert found["coilclaw_decision_seconds_sum"][()] > 0


async def test_how_long_the_owner_took_is_told_by_answer(sample):
    home = sample()
    home.owner.answer = Answer(approved=None)
    async with house(home) as site:
        for number, verb in enumerate(("approve", "approve", "reject")):
            action = (await home.call("file_write", key=f"k{number}", path=f"{number}.txt", content="x")).action
            approvals = home.app.approvals(site.serving.core.conveyor)
            if verb == "approve":
                await approvals.approve(action, by="terminal", digest=action.digest)
            else:
                await approvals.reject(action, reason="no")
        waits = (await scraped(site))["coilclaw_approval_wait_seconds_count"]
        assert waits == {labels(answer="approved"): 2, labels(answer="rejected"): 1}
        assert (await scraped(site))["coilclaw_approval_wait_seconds_count"] == waits


async def test_boxed_commands_are_timed_by_tier(sample):
    home = sample()
    ended = BoxResult(end="exited", exit_code=0, stdout=b"", stderr=b"", seconds=0.75, tier="B")
    home.box = FakeBox(lambda _: ended)
    async with house(home) as site:
        await home.call("shell", command="ls")
        found = await scraped(site)
        assert found["coilclaw_box_seconds_count"] == {labels(tier="B"): 1}
        assert found["coilclaw_box_seconds_sum"] == {labels(tier="B"): 0.75}


async def test_requests_are_timed_by_the_route_they_took(sample):
    async with house(sample()) as site:
        for path in ("/v1/policies/a.json", "/v1/policies/b.json", "/v1/nothing", "/v1/nothing/else"):
            await site.http.get(path)
        await site.http.get("/health")
        found = (await scraped(site))["coilclaw_request_seconds_count"]
        assert found[labels(route="/v1/policies/{name}", method="GET", status="404")] == 2
        assert not [route for route in found if "nothing" in str(route)]  # the door refused them before any route
        assert found[labels(route="/health", method="GET", status="200")] == 1


async def test_a_stream_counts_when_it_begins_and_is_seen_while_it_is_open(sample):
    async with house(sample()) as site, site.http.stream("GET", "/v1/events") as stream:
        pieces = stream.aiter_bytes()
        await anext(pieces)
        found = await scraped(site)
        assert found["coilclaw_streams"] == {(): 1}
        assert found["coilclaw_request_seconds_count"][labels(route="/v1/events", method="GET", status="200")] == 1


async def test_gauges_tell_what_is_open(sample):
    home = sample()
    async with house(home) as site:
        await site.http.put("/v1/system-prompt", json={"content": "x"})
        await site.http.post("/estop")
        found = await scraped(site)
        assert found["coilclaw_pending_approvals"] == {(): 1}
        assert found["coilclaw_open_jobs"] == {(): 0}
        assert found["coilclaw_estop"] == {(): 1}


async def test_a_chain_that_is_invalid_is_reported(sample):
    home = sample()
    await home.call("time")
    log = home.app.config.receipts.path
    log.write_text(log.read_text().replace("time", "tome"))
    async with house(home) as site:
        assert (await scraped(site))["coilclaw_receipt_chain_valid"] == {(): 0}
        assert (await site.http.get("/status")).json()["chain"]["valid"] is False


async def test_the_same_look_twice_counts_nothing_twice(sample):
    home = sample()
    async with house(home) as site:
        await home.call("shell", command="ls")
        first = await scraped(site)
        again = await scraped(site)
        for name in ("coilclaw_tool_calls_total", "coilclaw_box_seconds_count", "coilclaw_conversations_total"):
            assert again[name] == first[name]


async def test_damaged_rows_do_not_break_the_page(sample):
    home = sample()
    home.owner.answer = Answer(approved=None)
    async with house(home) as site:
        await home.call("time")
        await home.call("time", key="second")
        refused = (await home.call("file_write", key="third", path="a.txt", content="x")).action
        await home.app.approvals(site.serving.core.conveyor).reject(refused, reason="no")

        def damage(tx):
            tx.execute("UPDATE receipts SET line = '{\"tool\":' WHERE seq = 1")
            tx.execute("UPDATE receipts SET line = '[1, null]' WHERE seq = 2")
            tx.execute("UPDATE audit_log SET payload_json = '{' WHERE event_type = 'tool_denied'")
            tx.execute("UPDATE proposed_actions SET tool = 'shell', result_json = '{', created_at = 'then'")

        await home.app.db.write(damage)
        found = await scraped(site)
        calls = found["coilclaw_tool_calls_total"]
        assert calls[labels(tool="other", status="damaged")] == 2
        assert found["coilclaw_receipt_chain_valid"] == {(): 0}
