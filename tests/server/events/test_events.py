"""The event stream over real HTTP: everything, in order, once, for whoever may hear it."""

import asyncio
import json
import os
import random
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from coilclaw.gate.running import CommandOutput
from coilclaw.ledger.audit import add_event, last_number
from coilclaw.ledger.audit_chain import forget_events
from coilclaw.packets.ids import stamp
from coilclaw.secrets.redactor import Redactor
from coilclaw.server.events import reader as bounds
from coilclaw.server.events.feed import KEPT_EVENTS, PAGE, Feed
from coilclaw.server.events.part import events_part
from coilclaw.server.events.reader import Reader
from coilclaw.server.events.routes import EventsController
from coilclaw.server.events.stream import Streams
from coilclaw.server.events.topics import TOPICS, is_known, topics_of
from coilclaw.server.part import Part
from coilclaw.store.devices import revoke_device, token_holds
from tests.server.events.event_types import event_types
from tests.server.follower import Follower
from tests.server.site import enrol, served

COILCLAW = Path(sys.executable).with_name("coilclaw")


def with_streams(kept=None, **options):
    """A part whose streams have limits of the test's own; `kept` is given the streams."""

    def part(serving):
        app = serving.runtime

        def still_valid(caller):
            return token_holds(app.db.reader, caller.token_id, stamp(app.clock()))

        streams = Streams(serving.feed, **{"still_valid": still_valid, "most": 100, **options})
        if kept is not None:
            kept.append(streams)
        serving.on_revoked(lambda _: streams.check())
        return Part(controllers=(EventsController,), given={"streams": streams})

    return part


async def happen(sample, number=1, event_type="job_created", entity="job_1", payload=None):
    """So many events, in one commit."""
    app = sample.app
    await app.db.write(
        lambda tx: [add_event(tx, app.clock, event_type, entity, payload or {"n": at}) for at in range(number)] and None
    )
    return last_number(app.db.reader)


# What events are about


def test_every_type_of_event_in_the_source_has_a_topic():
    found, unread = event_types()
    assert not unread, f"these write events whose type cannot be read here: {unread}"
    assert {"message_added", "tool_completed", "job_step", "schedule_added", "sop_state", "turn_failed"} <= set(found)
    strangers = {word: place for word, place in found.items() if not is_known(word)}
    assert not strangers, f"server/events/topics.py says nothing of {strangers}"


def test_an_event_of_an_unknown_type_is_told_as_one_of_the_ledger():
    assert topics_of("something_new") == ("ledger",)
    assert all(topic in TOPICS for topic in topics_of("tool_denied"))


# What is told


async def test_a_stream_says_hello_and_then_what_happens(sample):
    home = sample()
    before = await happen(home, 3)
    async with served(home, events_part) as site, Follower(site.port, site.token) as follower:
        await follower.until(lambda f: f.named("hello"))
        assert follower.status == 200
        assert follower.headers["content-type"].startswith("text/event-stream")
        assert follower.headers["cache-control"] == "no-store"
        (hello,) = follower.named("hello")
        assert hello["seq"] == before == follower.last
        assert hello["version"]
        await happen(home, 1, "approval_needed", "act_1", {"digest": "d", "thread_id": "thr_9"})
        await follower.until(lambda f: f.named("approval"))
        (told,) = follower.named("approval")
        assert told == {
            "seq": before + 1,
            "event": "approval",
            "topics": ["approval", "action"],
            "type": "approval_needed",
            "id": "act_1",
            "at": told["at"],
            "thread_id": "thr_9",
            "data": {"digest": "d", "thread_id": "thr_9"},
        }


async def test_the_stream_begins_with_how_soon_to_come_back(sample):
    async with served(sample(), events_part) as site:
        answer = await site.http.get("/v1/events", params={"follow": "false"})
        assert answer.text.startswith("retry: 2000\nid: 0\nevent: hello\n")


async def test_whoever_comes_back_gets_everything_after_the_last_id_once_and_in_order(sample):
    home = sample()
    last = await happen(home, KEPT_EVENTS + 3 * PAGE)
    async with served(home, events_part) as site:
        async with Follower(site.port, site.token, last=7) as follower:
            await follower.until(lambda f: f.last == last)
            assert follower.numbers() == list(range(8, last + 1))
            last = await happen(home, 5)
            await follower.until(lambda f: f.last == last)
            assert follower.numbers() == list(range(8, last + 1))
        async with Follower(site.port, site.token, "?after=9") as polyfill:
            await polyfill.until(lambda f: f.last == last)
            assert polyfill.numbers() == list(range(10, last + 1))


async def test_the_header_counts_more_than_the_address(sample):
    home = sample()
    last = await happen(home, 20)
    async with served(home, events_part) as site, Follower(site.port, site.token, "?after=2", last=15) as follower:
        await follower.until(lambda f: f.last == last)
        assert follower.numbers() == [16, 17, 18, 19, 20]


async def test_nothing_is_lost_or_doubled_by_coming_while_things_happen(sample):
    home, chance = sample(), random.Random(7)
    async with served(home, events_part) as site:
        followers = []

        async def come():
            for _ in range(12):
                await asyncio.sleep(chance.random() / 50)
                follower = Follower(site.port, site.token, last=chance.choice([0, last_number(home.app.db.reader)]))
                followers.append((follower, follower.last))
                (await follower.open()).read()

        coming = asyncio.ensure_future(come())
        for _ in range(60):
            await happen(home, chance.randrange(1, 30))
        await coming
        last = await happen(home)
        for follower, began in followers:
            await follower.until(lambda f: f.last == last)
            assert follower.numbers() == list(range(began + 1, last + 1))
            await follower.close()


async def test_a_number_that_was_never_given_is_a_gap_and_the_stream_continues(sample):
    home = sample()
    last = await happen(home, 4)
    async with served(home, events_part) as site, Follower(site.port, site.token, last=9_000) as follower:
        await follower.until(lambda f: f.named("gap"))
        assert follower.named("gap") == [{"from": 9_000, "to": last}]
        assert follower.last == last
        await happen(home)
        await follower.until(lambda f: f.numbers() == [last + 1])


async def test_what_was_pruned_is_a_gap(sample):
    home = sample()
    last = await happen(home, 50)
    await home.app.db.write(lambda tx: tx.execute("DELETE FROM audit_log WHERE seq <= 20 OR seq = 30") and None)
    async with served(home, events_part) as site, Follower(site.port, site.token, last=3) as follower:
        await follower.until(lambda f: f.last == last)
        assert follower.named("gap") == [{"from": 4, "to": 20}, {"from": 30, "to": 30}]
        assert follower.numbers() == [*range(21, 30), *range(31, last + 1)]


async def test_when_everything_missed_was_pruned_the_gap_reaches_to_the_newest(sample):
    home = sample()
    last = await happen(home, 10)
    gone = "DELETE FROM audit_log RETURNING seq, entity_id, state, link"
    await home.app.db.write(lambda tx: forget_events(tx, tx.execute(gone).fetchall()))
    async with served(home, events_part) as site, Follower(site.port, site.token, last=2) as follower:
        await follower.until(lambda f: f.last == last)
        assert follower.named("gap") == [{"from": 3, "to": last}]


async def test_filters_hold_for_what_was_missed_and_for_what_happens(sample):
    home = sample()
    await happen(home, 2, "job_created", "job_1", {"thread_id": "thr_1"})
    await happen(home, 2, "job_created", "job_2", {"thread_id": "thr_2"})
    await happen(home, 2, "schedule_added", "s")
    async with served(home, events_part) as site:
        async with Follower(site.port, site.token, "?topics=job,schedule&after=0") as both:
            await both.until(lambda f: f.numbers() == [1, 2, 3, 4, 5, 6])
        async with Follower(site.port, site.token, "?topics=job&thread_id=thr_2&after=0") as one:
            await one.until(lambda f: f.numbers() == [3, 4])
            await happen(home, 1, "tool_begun", "act_1", {"thread_id": "thr_2"})
            await happen(home, 1, "job_state", "job_1", {"thread_id": "thr_1"})
            last = await happen(home, 1, "job_state", "job_2", {"thread_id": "thr_2"})
            await one.until(lambda f: f.last == last)
            assert one.numbers() == [3, 4, last]


async def test_an_event_that_concerns_two_lists_is_heard_under_both_topics(sample):
    home = sample()
    await happen(home, 1, "tool_completed", "act_1")
    async with served(home, events_part) as site:
        for topic in ("action", "receipt"):
            async with Follower(site.port, site.token, f"?topics={topic}&after=0") as follower:
                await follower.until(lambda f: f.named("action"))


async def test_the_conversation_of_an_action_or_job_is_reported_though_its_event_does_not_name_it(sample):
    home = sample()
    outcome = await home.call("file_list", path=".")
    action_id = outcome.action.action_id
    await home.app.db.write(
        lambda tx: (
            tx.execute("UPDATE proposed_actions SET thread_id = 'thr_7' WHERE action_id = ?", (action_id,)) and None
        )
    )
    async with (
        served(home, events_part) as site,
        Follower(site.port, site.token, "?after=0&topics=receipt") as follower,
    ):
        await follower.until(lambda f: f.named("action"))
        told = follower.named("action")[-1]
        assert (told["type"], told["id"], told["thread_id"]) == ("tool_completed", action_id, "thr_7")


async def test_heartbeats_carry_the_number_that_filtered_events_have_reached(sample):
    home = sample()
    async with served(home, with_streams(heartbeat_seconds=0.05)) as site:
        async with Follower(site.port, site.token, "?topics=estop") as follower:
            await follower.until(lambda f: f.named("hello"))
            last = await happen(home, 30)
            await follower.until(lambda f: f.comments and f.last == last)
            assert follower.numbers() == []
        async with Follower(site.port, site.token, "?topics=estop", last=follower.last) as again:
            await again.until(lambda f: f.comments)
            assert not again.named("gap")


async def test_a_stream_that_need_not_follow_ends_when_everything_was_told(sample):
    home = sample()
    await happen(home, 5)
    async with served(home, events_part) as site:
        answer = await site.http.get("/v1/events", params={"after": 1, "follow": "false"})
        assert answer.text.count("event: job") == 4


# Text


async def test_text_is_reported_without_a_number_to_those_who_follow_its_conversation(sample):
    home, kept = sample(), []
    async with served(home, with_streams(kept)) as site:
        feed = kept[0].feed
        async with (
            Follower(site.port, site.token, "?topics=thread&thread_id=thr_1") as mine,
            Follower(site.port, site.token, "?topics=thread&thread_id=thr_2") as other,
            Follower(site.port, site.token, "?topics=job") as jobs,
        ):
            for follower in (mine, other, jobs):
                await follower.until(lambda f: f.named("hello"))
            feed.say_text("thr_1", "turn_1", 0, "Good ")
            feed.say_text("thr_1", "turn_1", 5, "morning\nüber\u2028all")
            await mine.until(lambda f: len(f.named("text")) == 2)
            assert [number for name, number, _ in mine.events if name == "text"] == [None, None]
            assert "".join(piece["text"] for piece in mine.named("text")) == "Good morning\nüber\u2028all"
            assert mine.named("text")[1] == {
                "thread_id": "thr_1", "turn_id": "turn_1", "offset": 5, "text": "morning\nüber\u2028all",
            }  # fmt: skip
            last = await happen(home)
            await jobs.until(lambda f: f.last == last)
            assert not other.named("text")
            assert not jobs.named("text")


@pytest.mark.parametrize(("query", "heard"), [("?text_of=thr_1", ["thr_1"]), ("?text_of=none", [])])
async def test_a_stream_gets_the_text_of_the_conversation_it_names_and_the_events_of_all(sample, query, heard):
    home, kept = sample(), []
    async with served(home, with_streams(kept)) as site:
        feed = kept[0].feed
        feed.partials = lambda: [("thr_1", "turn_1", "Good "), ("thr_2", "turn_2", "No")]
        async with Follower(site.port, site.token, query) as follower:
            await follower.until(lambda f: f.named("hello"))
            feed.say_text("thr_2", "turn_2", 2, "thing")
            feed.say_text("thr_1", "turn_1", 5, "morning")
            last = await happen(home, 1, "message_added", "thr_2", {})
            await follower.until(lambda f: f.last == last)
            assert follower.named("thread")[-1]["thread_id"] == "thr_2"
            assert [piece["thread_id"] for piece in follower.named("text")] == heard * 2


async def test_nothing_is_queued_for_a_stream_that_did_not_ask_for_it(sample):
    home = sample()
    feed = Feed(home.app.db, home.app.clock, home.app.redactor)
    reader, other = Reader(text_of="thr_1"), Reader(topics=["job"], text_of="thr_2")
    try:
        assert feed.join(reader)
        assert feed.join(other)
        for offset in range(2 * bounds.MOST_EVENTS):  # more than a queue takes: whoever got them would be cut off
            feed.say_text("thr_2", "turn_2", offset, "x")
        assert (reader.take(), reader.ending) == (b"", "")
        assert (other.take(), other.ending) == (b"", "")
        feed.say_text("thr_1", "turn_1", 0, "mine")
        assert b"mine" in reader.take()
    finally:
        feed.leave(reader)
        feed.leave(other)


def output(offset, piece, thread_id="thr_1"):
    return CommandOutput(thread_id=thread_id, turn_id="turn_1", action_id="act_1", offset=offset, piece=piece)


async def test_output_of_a_command_is_told_to_those_who_follow_its_conversation(sample):
    kept = []
    async with served(sample(), with_streams(kept)) as site:
        feed = kept[0].feed
        feed.outputs = lambda: [output(3, "so far"), output(0, "other", "thr_2")]
        async with Follower(site.port, site.token, "?text_of=thr_1") as follower:
            await follower.until(lambda f: f.named("command_output"))
            feed.say_output(output(9, " more"))
            feed.say_output(output(5, "nobody", "thr_2"))
            await follower.until(lambda f: len(f.named("command_output")) == 2)
            assert follower.named("command_output") == [
                {"thread_id": "thr_1", "turn_id": "turn_1", "action_id": "act_1", "offset": 3, "piece": "so far"},
                {"thread_id": "thr_1", "turn_id": "turn_1", "action_id": "act_1", "offset": 9, "piece": " more"},
            ]
            assert [number for name, number, _ in follower.events if name == "command_output"] == [None, None]


@pytest.mark.parametrize("size", [1, 60_000])
async def test_slow_reader_misses_output_of_commands_and_no_event(sample, size):
    home = sample()
    feed = Feed(home.app.db, home.app.clock, home.app.redactor)
    reader = Reader()
    try:
        assert feed.join(reader)
        for number in range(2 * bounds.MOST_EVENTS):
            feed.say_output(output(number * size, "x" * size))
        last = await happen(home)
        while feed.look():
            pass
        taken = b"".join(iter(reader.take, b""))
        assert reader.ending == ""
        assert f"id: {last}".encode() in taken
        assert 0 < len(taken) <= bounds.MOST_BYTES
        feed.say_output(output(10**9, "later"))  # the place tells what was missed
        assert b'"offset":1000000000' in reader.take()
    finally:
        feed.leave(reader)


async def test_whoever_comes_in_the_middle_of_a_turn_gets_what_it_said_so_far(sample):
    kept = []
    async with served(sample(), with_streams(kept)) as site:
        kept[0].feed.partials = lambda: [("thr_1", "turn_1", "Good mor"), ("thr_2", "turn_2", "No"), ("thr_1", "t", "")]
        async with Follower(site.port, site.token, "?thread_id=thr_1") as follower:
            await follower.until(lambda f: f.named("text"))
            kept[0].feed.say_text("thr_1", "turn_1", 8, "ning")
            await follower.until(lambda f: len(f.named("text")) == 2)
            assert [(piece["offset"], piece["text"]) for piece in follower.named("text")] == [
                (0, "Good mor"),
                (8, "ning"),
            ]


# Odd ones


async def test_a_payload_that_is_not_json_is_told_as_text(sample):
    home = sample()
    await home.app.db.write(
        lambda tx: (
            tx.execute(
                "INSERT INTO audit_log (entry_id, event_type, entity_id, payload_json, created_at)"
                " VALUES ('e', 'job_state', 'j', 'not { json', '2026')"
            )
            and None
        )
    )
    async with served(home, events_part) as site, Follower(site.port, site.token, last=0) as follower:
        await follower.until(lambda f: f.named("job"))
        assert follower.named("job")[0]["data"] == "not { json"


# Who may hear it


async def test_without_a_token_there_is_no_stream(sample):
    async with served(sample(), events_part) as site:
        assert (await site.bare.get("/v1/events")).status_code == 401


async def test_the_streams_of_a_revoked_device_end_and_those_of_others_continue(sample):
    home = sample()
    async with served(home, events_part) as site:
        lost = enrol(home, "dev_lost", "tok_lost")
        async with Follower(site.port, site.token) as mine, Follower(site.port, lost) as theirs:
            for follower in (mine, theirs):
                await follower.until(lambda f: f.named("hello"))
            await home.app.db.write(lambda tx: revoke_device(tx, "dev_lost", stamp(home.app.clock())))
            await theirs.until(lambda f: f.ended)
            last = await happen(home)
            await mine.until(lambda f: f.last == last)
            assert last not in theirs.numbers()
            assert not mine.ended


async def test_the_streams_of_a_token_that_is_over_end(sample):
    home = sample()
    async with served(home, events_part) as site, Follower(site.port, site.token) as follower:
        await follower.until(lambda f: f.named("hello"))
        past = stamp(home.app.clock() - timedelta(seconds=1))
        await home.app.db.write(lambda tx: tx.execute("UPDATE auth_tokens SET expires_at = ?", (past,)) and None)
        await follower.until(lambda f: f.ended)


async def test_a_device_that_cannot_be_looked_up_is_sent_away(sample):
    def broken(_):
        raise OSError

    async with served(sample(), with_streams(still_valid=broken)) as site, Follower(site.port, site.token) as follower:
        await follower.until(lambda f: f.ended)


async def test_so_many_streams_and_no_more(sample):
    home, kept = sample(), []
    async with served(home, with_streams(kept, most=6)) as site:
        followers = [await Follower(site.port, site.token).open() for _ in range(5)]
        assert [follower.status for follower in followers] == [200] * 5
        refused = await site.http.get("/v1/events")
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "5"
        assert refused.json()["code"] == "TOO_MANY_STREAMS"
        other = await Follower(site.port, enrol(home, "dev_2", "tok_2")).open()
        assert other.status == 200, "one device does not keep the others out"
        third = site.client(headers={"Authorization": f"Bearer {enrol(home, 'dev_3', 'tok_3')}"})
        assert (await third.get("/v1/events")).status_code == 503
        for follower in followers:
            await follower.close()
        async with asyncio.timeout(280):
            while len(kept[0]) > 1:
                await asyncio.sleep(0.01)
        async with Follower(site.port, site.token) as again:
            assert again.status == 200
        await other.close()


@pytest.mark.parametrize(
    "query",
    ["topics=", "topics=jobs", "topics=job,", "topics=job;x", "after=-1", "after=x", f"after={1 << 64}",
     "thread_id=", "thread_id=" + "x" * 201, "text_of=", "text_of=" + "x" * 201, "follow=maybe"],
)  # fmt: skip
async def test_a_question_that_makes_no_sense_is_refused(sample, query):
    async with served(sample(), events_part) as site:
        answer = await site.http.get(f"/v1/events?{query}")
        assert answer.status_code == 400
        assert answer.json()["code"] == "BAD_REQUEST"


@pytest.mark.parametrize(("last", "status"), [("", 200), ("12x", 400), ("-1", 400), ("9" * 19, 200), ("9" * 20, 400)])
async def test_only_a_number_is_a_last_event_id(sample, last, status):
    async with served(sample(), events_part) as site:
        answer = await site.http.get("/v1/events?follow=false", headers={"Last-Event-ID": last})
        assert answer.status_code == status


async def test_the_stream_is_documented_as_one(sample):
    async with served(sample(), events_part) as site:
        described = (await site.http.get("/v1/openapi.json")).json()["paths"]["/v1/events"]["get"]
        assert described["operationId"] == "followEvents"
        (content,) = described["responses"]["200"]["content"].items()
        assert content[0] == "text/event-stream"
        assert content[1]["schema"]["contentSchema"]["items"] == {"$ref": "#/components/schemas/StreamMessage"}
        assert {each["name"] for each in described["parameters"]} >= {"topics", "thread_id", "after", "Last-Event-ID"}


def messages_of(document):
    """What the document says of one message, and of no more than it says."""
    import jsonschema

    schemas = json.loads(json.dumps(document["components"]["schemas"]))
    for name in ("LiveEvent", "TextDelta", "CommandOutput", "StreamHello", "StreamGap"):
        assert set(schemas[name]["required"]) == set(schemas[name]["properties"])
        schemas[name]["additionalProperties"] = False
    whole = {"$ref": "#/components/schemas/StreamMessage", "components": {"schemas": schemas}}
    return jsonschema.Draft202012Validator(whole)


async def test_every_message_that_is_sent_is_as_the_document_says(sample):
    home = sample()
    home.app.redactor.register("LAB", "tr0ub4dor-and-3-horses")
    home.app.redactor.register("WORD", "settings")
    types, _ = event_types()
    payloads = ({"thread_id": "thr_1"}, {"said": "tr0ub4dor-and-3-horses"}, {"long": "x" * (70 << 10)}, ["odd"], {})
    gone = await happen(home, 3)
    for at, kind in enumerate([*sorted(types), "receipt_of_tomorrow"]):
        await happen(home, 1, kind, f"id_{at}", payloads[at % len(payloads)])
    home.app.db.write_now(lambda tx: tx.execute("DELETE FROM audit_log WHERE seq = ?", (gone,)))
    kept = []
    async with served(home, with_streams(kept)) as site, Follower(site.port, site.token, "?after=1") as follower:
        await follower.reach(last_number(home.app.db.reader))
        kept[0].feed.say_text("thr_1", "turn_1", 0, "Once")
        await follower.until(lambda f: f.named("text"))
        document = (await site.http.get("/v1/openapi.json")).json()
    fits = messages_of(document)
    assert {name for name, _, _ in follower.events} == {"hello", "gap", "text", *TOPICS}
    for name, _, data in follower.events:
        fits.validate({"event": name, "data": data})
        if name in TOPICS:
            assert (data["event"], tuple(data["topics"])) == (name, topics_of(data["type"]))
    assert not fits.is_valid({"event": "job", "data": {**follower.events[-2][2], "more": 1}})
    assert not fits.is_valid({"event": "gone", "data": follower.events[-2][2]})


# Ends


async def test_open_streams_end_with_the_server(sample):
    async with served(sample(), events_part) as site:
        followers = [(await Follower(site.port, site.token).open()).read() for _ in range(20)]
        for follower in followers:
            await follower.until(lambda f: f.named("hello"))
    for follower in followers:
        await follower.until(lambda f: f.ended)
        await follower.close()


async def test_a_reader_who_is_gone_leaves_nothing_behind(sample):
    kept = []
    async with served(sample(), with_streams(kept)) as site:
        async with Follower(site.port, site.token) as follower:
            await follower.until(lambda f: f.named("hello"))
            assert len(kept[0]) == 1
        async with asyncio.timeout(280):
            while len(kept[0]):
                await asyncio.sleep(0.01)


async def test_a_reader_who_lets_too_much_pile_up_is_cut_off_and_the_others_hear_everything(db, clock):
    feed = Feed(db, clock, Redactor())
    slow, quick = Reader(), Reader()
    assert feed.join(slow)
    assert feed.join(quick)
    told = b""
    for _ in range(bounds.MOST_EVENTS // PAGE + 1):
        await db.write(lambda tx: [add_event(tx, clock, "job_step", "j", {}) for _ in range(PAGE)] and None)
        while feed.look():
            pass
        while piece := quick.take():
            told += piece
    assert slow.ending == "overflow"
    assert slow.take() == b""
    assert quick.ending == ""
    assert told.count(b"event: job") == bounds.MOST_EVENTS + PAGE
    feed.leave(slow)
    feed.leave(quick)


async def test_bytes_pile_up_no_further_than_their_bound():
    reader = Reader()
    for _ in range(100):
        reader.put(b"x" * (bounds.MOST_BYTES // 10))
    assert reader.ending == "overflow"


async def test_a_database_put_in_place_of_another_does_not_stop_the_feed(db, clock):
    feed, reader = Feed(db, clock, Redactor(), poll_seconds=0.01), Reader()
    await db.write(lambda tx: [add_event(tx, clock, "job_step", "j", {}) for _ in range(9)] and None)
    assert feed.join(Reader(seq=9))
    reader.seq = 9
    assert feed.join(reader)

    def back(tx):
        tx.execute("DELETE FROM audit_log")
        tx.execute("UPDATE sqlite_sequence SET seq = 2 WHERE name = 'audit_log'")

    await db.write(back)
    feed.look()
    again = Reader(seq=2)
    assert feed.join(again)
    await db.write(lambda tx: add_event(tx, clock, "job_step", "j", {}))
    assert await again.wait(60)
    assert b"id: 3\n" in again.take()
    for each in (reader, again):
        feed.leave(each)
    feed.close()


# Other processes


@pytest.mark.slow
async def test_what_another_process_does_appears_in_the_stream(sample):
    home = sample()
    environ = {**os.environ, "COILCLAW_HOME": str(home.home.root), "HOME": str(home.folder / "user")}
    async with served(home, events_part) as site, Follower(site.port, site.token, "?topics=thread") as follower:
        await follower.until(lambda f: f.named("hello"))
        done = await asyncio.to_thread(
            subprocess.run, [COILCLAW, "agent", "-m", "hi"], env=environ, capture_output=True, text=True, timeout=280
        )
        assert done.returncode == 0, done.stderr
        await follower.until(
            lambda f: {"user", "assistant"} <= {each["data"].get("role") for each in f.named("thread")}
        )
        assert all(json.dumps(each).count("hi") == 0 for each in follower.named("thread")), "ids, never content"
