"""The audit over HTTP: in order, by what is asked for, a piece at a time, without secrets."""

import asyncio
import json
import tracemalloc

import pytest

from coilclaw.ledger import audit_page
from coilclaw.ledger.audit import add_event
from tests.features.approvals.queue_home import code_of, queue_home
from tests.server.parts import queue_part
from tests.server.site import served


async def events(site, **params):
    answer = await site.http.get("/v1/audit", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


async def everything(site, **params):
    """Every page, one after the other."""
    found, cursor = [], None
    while True:
        page = (await site.http.get("/v1/audit", params=params | ({"cursor": cursor} if cursor else {}))).json()
        found += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return found


def write_events(home, count, event_type="ping", entity="ent_1", **payload):
    def write(tx):
        for _ in range(count):
            add_event(tx, home.app.clock, event_type, entity, payload)

    home.app.db.write_now(write)


async def test_events_come_newest_first_or_in_order_after_a_number(tmp_path):
    with queue_home(tmp_path) as q:
        write_events(q.home, 25)
        async with served(q.home, queue_part) as site:
            back = await everything(site, limit=7, event_type="ping")
            assert [event["seq"] for event in back] == sorted((event["seq"] for event in back), reverse=True)
            assert len(back) == 25
            on = await everything(site, limit=7, event_type="ping", after=0)
            assert on == back[::-1]
            middle = on[10]["seq"]
            assert await everything(site, limit=4, after=middle, event_type="ping") == on[11:]
            assert await events(site, after=1 << 53) == []


async def test_events_are_found_by_type_entity_and_time(tmp_path):
    with queue_home(tmp_path) as q:
        action_id = await q.write()
        q.wait(hours=2)
        write_events(q.home, 2, entity="ent_2")
        async with served(q.home, queue_part) as site:
            assert [event["event_type"] for event in await events(site, entity_id=action_id)] == [
                "approval_needed",
                "tool_requested",
            ]
            assert len(await events(site, event_type="ping")) == 2
            noon = q.load(action_id).expires_at  # a day later than everything
            assert await events(site, since=noon) == []
            newest = (await events(site, event_type="ping"))[-1]["created_at"]
            assert {event["event_type"] for event in await events(site, since=newest)} == {"ping"}
            assert "ping" not in {event["event_type"] for event in await events(site, until=newest)}
            assert [
                event["event_type"] for event in await events(site, until=newest, after=0, entity_id=action_id)
            ] == [
                "tool_requested",
                "approval_needed",
            ]


async def test_a_clock_that_went_back_hides_nothing(tmp_path):
    with queue_home(tmp_path) as q:
        write_events(q.home, 1, entity="before")
        q.wait(days=2)
        write_events(q.home, 1, entity="ahead")
        q.wait(days=-2)
        write_events(q.home, 1, entity="after")
        q.wait(days=1)
        async with served(q.home, queue_part) as site:
            until = q.home.app.clock().isoformat()
            found = await everything(site, until=until, event_type="ping")
            assert [event["entity_id"] for event in found] == ["after", "before"]
            since = await everything(site, since=until, event_type="ping")
            assert [event["entity_id"] for event in since] == ["ahead"]


async def test_a_rare_event_is_reached_over_short_pages(tmp_path):
    with queue_home(tmp_path) as q:
        write_events(q.home, 1, "rare")
        write_events(q.home, audit_page.SCANNED + 10)
        async with served(q.home, queue_part) as site:
            first = (await site.http.get("/v1/audit", params={"event_type": "rare"})).json()
            assert first["items"] == []
            assert first["next_cursor"] is not None
            assert [event["event_type"] for event in await everything(site, event_type="rare")] == ["rare"]
            write_events(q.home, 1, "rare")
            found = await everything(site, event_type="rare", after=0)
            assert [event["event_type"] for event in found] == ["rare", "rare"]


async def test_an_export_is_every_event_of_its_time_as_lines_without_secrets(tmp_path):
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2"
    with queue_home(tmp_path) as q:
        write_events(q.home, 250, note=f"see {token}")
        q.wait(hours=2)
        write_events(q.home, 3, entity="late")
        async with served(q.home, queue_part) as site:
            answer = await site.http.get("/v1/audit/export")
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("application/x-ndjson")
            assert "attachment" in answer.headers["content-disposition"]
            lines = [json.loads(line) for line in answer.text.splitlines()]
            assert [line["seq"] for line in lines] == sorted(line["seq"] for line in lines)
            assert sum(line["event_type"] == "ping" for line in lines) == 253
            assert token not in answer.text
            assert "[redacted:github]" in answer.text
            since = next(line["created_at"] for line in lines if line["entity_id"] == "late")
            late = (await site.http.get("/v1/audit/export", params={"since": since})).text.splitlines()
            assert sum(json.loads(line)["entity_id"] == "late" for line in late) == 3
            early = (await site.http.get("/v1/audit/export", params={"until": since})).text
            assert '"late"' not in early
            assert (await site.http.get("/v1/audit/export", params={"until": "2001-01-01T00:00:00Z"})).text == ""
            assert code_of(await site.http.get("/v1/audit/export", params={"since": "x"}), 422) == "BAD_MOMENT"


@pytest.mark.slow
async def test_an_export_keeps_little_in_memory_and_others_are_served_meanwhile(tmp_path):
    with queue_home(tmp_path) as q:
        write_events(q.home, 6000, note="n" * 1000)
        async with served(q.home, queue_part) as site:
            async with site.http.stream("GET", "/v1/audit/export") as answer:
                pieces = answer.aiter_bytes()
                await anext(pieces)
                tracemalloc.start()
                total = 0
                async for piece in pieces:
                    total += len(piece)
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
            assert total > 5_000_000
            assert peak < 3_000_000
            async with site.http.stream("GET", "/v1/audit/export") as answer:
                await anext(answer.aiter_bytes())  # a reader that stops reading
                others = await asyncio.gather(*(site.http.get("/v1/receipts/head") for _ in range(5)))
                assert {other.status_code for other in others} == {200}


async def test_bad_questions_are_refused(tmp_path):
    with queue_home(tmp_path) as q:
        async with served(q.home, queue_part) as site:
            for name, value in (
                ("after", "-1"), ("after", str(1 << 60)), ("after", "x"), ("since", "x"), ("limit", "0"),
                ("cursor", "x"), ("cursor", "Wy0xLC0xXQ"), ("event_type", "x" * 101),
            ):  # fmt: skip
                answer = await site.http.get("/v1/audit", params={name: value})
                assert answer.status_code in (400, 422), answer.text
                assert answer.json()["code"] in ("BAD_REQUEST", "BAD_MOMENT", "BAD_CURSOR"), (name, value)


async def test_a_line_says_what_it_is_about_and_chatter_can_be_left_out(tmp_path):
    with queue_home(tmp_path) as q:
        action_id = await q.write("list.md")
        write_events(q.home, 3, event_type="message_added", entity="conv_1")
        async with served(q.home, queue_part) as site:
            asked = next(event for event in await events(site) if event["event_type"] == "tool_requested")
            assert (asked["entity_id"], asked["about"]) == (action_id, "Write 6 bytes to list.md.")
            assert {"message_added", "notification_added"} & {event["event_type"] for event in await everything(site)}
            calm = {event["event_type"] for event in await everything(site, quiet=True, limit=2)}
            assert "tool_requested" in calm
            assert not calm & set(audit_page.CHATTER)


async def test_an_export_honours_the_filter_and_is_named_after_its_day(tmp_path):
    with queue_home(tmp_path) as q:
        action_id = await q.write("list.md")
        write_events(q.home, 3)
        async with served(q.home, queue_part) as site:

            async def types(**params):
                answer = await site.http.get("/v1/audit/export", params=params)
                return {json.loads(line)["event_type"] for line in answer.text.splitlines()}

            assert await types(event_type="ping") == {"ping"}
            assert "ping" not in await types(entity_id=action_id)
            assert not await types(quiet=True) & set(audit_page.CHATTER)
            day = f"{q.home.app.clock():%Y-%m-%d}"
            whole = await site.http.get("/v1/audit/export")
            part = await site.http.get("/v1/audit/export", params={"event_type": "ping"})
            assert f'filename="audit-{day}.jsonl"' in whole.headers["content-disposition"]
            assert f'filename="audit-{day}-part.jsonl"' in part.headers["content-disposition"]
