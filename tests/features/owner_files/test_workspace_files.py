"""The workspace over HTTP: folders are listed without following or opening anything, and a write can be taken back."""

import asyncio
import dataclasses
import json
import os

from coilclaw.features.chat.agent import agent_of
from coilclaw.features.chat.feature import chat_part
from coilclaw.features.chat.turns import Turns
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import OWNER
from coilclaw.packets.canonical import parse_object
from coilclaw.packets.job import UserMessage
from coilclaw.sandbox.fake_box import FakeBox, finished
from coilclaw.server.events.part import events_part
from coilclaw.store.actions import load_action
from tests.server.house import code_of, house
from tests.server.parts import house_part, queue_part
from tests.server.site import served, unlimited


async def listed(site, folder=""):
    return await site.http.get("/v1/files/list", params={"folder": folder})


async def test_a_folder_is_listed_folders_first_with_kinds_and_sizes(sample):
    home = sample()
    (home.workspace / "listed" / "deeper").mkdir(parents=True)
    (home.workspace / "listed" / "a.txt").write_text("abc")
    (home.workspace / "listed" / "link").symlink_to("/etc/passwd")
    async with house(home) as site:
        told = (await listed(site, "listed")).json()
        assert (told["path"], told["cut"]) == ("listed", False)
        found = [(each["name"], each["kind"], each["size"]) for each in told["items"]]
        assert found == [("deeper", "dir", 0), ("a.txt", "file", 3), ("link", "link", 0)]
        assert "listed" in [each["name"] for each in (await listed(site)).json()["items"]]


async def test_no_link_and_no_dots_lead_out_of_the_workspace(sample):
    home = sample()
    (home.workspace / "away").symlink_to(home.workspace.parent)
    async with house(home) as site:
        for folder in ("..", "away", "away/keys", "a/../..", "/etc", "./.", "no\0where", "nowhere"):
            assert code_of(await listed(site, folder), 404) == "NOT_FOUND", folder


async def test_what_is_forbidden_is_not_listed(sample):
    home = sample()
    (home.workspace / "closed").mkdir()
    home.app.root.places
    async with house(home) as site:
        assert "closed" in [each["name"] for each in (await listed(site)).json()["items"]]
    shut = sample(security__forbidden_paths=(home.workspace / "closed",))
    async with house(shut) as site:
        assert "closed" not in [each["name"] for each in (await listed(site)).json()["items"]]
        assert code_of(await listed(site, "closed"), 404) == "NOT_FOUND"


async def test_a_thousand_names_are_listed_and_the_rest_is_counted(sample):
    home = sample()
    (home.workspace / "many").mkdir()
    for at in range(1002):
        (home.workspace / "many" / f"{at:04}").touch()
    async with house(home) as site:
        told = (await listed(site, "many")).json()
        assert (len(told["items"]), told["cut"]) == (1000, True)


async def test_a_huge_file_is_named_and_not_read(sample):
    home = sample()
    with (home.workspace / "huge.bin").open("wb") as file:
        os.truncate(file.fileno(), 1 << 30)
    async with house(home) as site:
        huge = next(each for each in (await listed(site)).json()["items"] if each["name"] == "huge.bin")
        assert huge["size"] == 1 << 30
        shown = await site.http.post("/v1/files/show", json={"path": "huge.bin"})
        assert shown.status_code == 409
        assert len(shown.content) < 10_000


async def test_an_uploaded_file_is_marked_in_its_folder_and_above(sample):
    home = sample()
    async with house(home) as site:
        labels = home.app.root.labels
        home.app.db.write_now(lambda tx: labels.mark(tx, labels.names(["in/a.txt"]), ("untrusted:web",)))
        (home.workspace / "in").mkdir()
        (home.workspace / "in" / "a.txt").write_text("x")
        (home.workspace / "in" / "b.txt").write_text("x")
        inside = {each["name"]: each["labelled"] for each in (await listed(site, "in")).json()["items"]}
        assert inside == {"a.txt": True, "b.txt": False}
        assert next(each for each in (await listed(site)).json()["items"] if each["name"] == "in")["labelled"]


async def test_an_undo_waits_on_its_card_and_then_brings_the_file_back(sample):
    home = sample()
    file = home.workspace / "skills" / "baking" / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text("before\n")
    async with house(home) as site:
        wrote = (await site.http.put("/v1/skills/baking", json={"content": "after\n"})).json()
        assert file.read_text() == "after\n"
        key, body = {"Idempotency-Key": "0123456789abcdef"}, {"action_id": wrote["action_id"]}
        made = (await site.http.post("/v1/files/undo", json=body, headers=key)).json()
        assert (made["status"], file.read_text()) == ("PENDING", "after\n")
        assert (await site.http.post("/v1/files/undo", json=body, headers=key)).json() == made
        at = f"/v1/approvals/{made['action_id']}"
        card = (await site.http.get(at)).json()
        assert "skills/baking/SKILL.md" in card["preview_or_diff"]
        said = await site.http.post(f"{at}/approve", json={"digest": card["digest"], "seen": card["seen"]})
        assert said.status_code in (200, 202), said.text
        while load_action(home.app.db.reader, made["action_id"]).status in ("PENDING", "APPROVED"):
            await asyncio.sleep(0.02)
        assert file.read_text() == "before\n"


async def wrote(home, tool, key, turn="turn_1", **args):
    """A finished write of one turn; its action."""
    outcome = await home.call(tool, turn=Turn(turn, "", "chat"), key=key, **args)
    assert outcome.result.success, outcome.result.output
    return outcome.action.action_id


async def asked_back(home, site, **body):
    """What an undo would bring back, and whether it is for that one write."""
    answer = await site.http.post("/v1/files/undo", json=body)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    action = load_action(home.app.db.reader, made["action_id"])
    return made, parse_object(action.call.args_bytes)


async def told(site, thread_id):
    """By path: the undo of each write of a conversation, as a page of its messages tells it."""
    page = (await site.http.get(f"/v1/chat/threads/{thread_id}/messages")).json()
    calls = [call for message in page["items"] for call in message["calls"]]
    return {json.loads(call["arguments"])["path"]: (call["undo_id"], call["undo_status"]) for call in calls}


def conversations(serving):
    """Conversations to read; no turn is run beside them."""
    turns = Turns(serving.runtime, serving.core.conveyor, lambda *_: None)
    return dataclasses.replace(chat_part(serving, turns), beside=(), close=turns.close)


async def test_a_conversation_tells_what_was_taken_back_however_that_was_done(sample):
    home = sample(security__autonomy="full")
    writes = [
        {"tool": "file_write", "arguments": json.dumps({"path": path, "content": "x"})} for path in ("a.txt", "b.txt")
    ]
    home.script({"tool_calls": writes}, {"text": "done"})
    asked = UserMessage(
        message_id="msg_1", thread_id="conv_1", channel="cli", source="chat", text="go", label=OWNER, received_at=""
    )
    a, _ = (outcome.action for outcome in (await agent_of(home.app, home.conveyor()).turn(asked)).outcomes)
    thread, nothing = "conv_1", (None, None)
    async with served(home, queue_part, events_part, house_part, conversations, rates=unlimited()) as site:
        assert await told(site, thread) == {"a.txt": nothing, "b.txt": nothing}
        made, _ = await asked_back(home, site, action_id=a.action_id)
        assert await told(site, thread) == {"a.txt": (made["action_id"], "PENDING"), "b.txt": nothing}
        await approved(home, site, made)
        taken = (made["action_id"], "EXECUTED")
        assert await told(site, thread) == {"a.txt": taken, "b.txt": nothing}
        everything = await home.call("undo", key="terminal", snapshot=home.app.root.snapshots.of_turn(a.turn_id)[0].id)
        assert not (home.workspace / "b.txt").exists()
        both = (everything.action.action_id, "EXECUTED")
        assert await told(site, thread) == {"a.txt": both, "b.txt": both}
        await home.call("undo", key="again", snapshot=home.app.root.snapshots.named("").id)
        assert (home.workspace / "b.txt").exists()
        assert await told(site, thread) == {"a.txt": nothing, "b.txt": nothing}


async def approved(home, site, made):
    at = f"/v1/approvals/{made['action_id']}"
    card = (await site.http.get(at)).json()
    said = await site.http.post(f"{at}/approve", json={"digest": card["digest"], "seen": card["seen"]})
    assert said.status_code in (200, 202), said.text
    while load_action(home.app.db.reader, made["action_id"]).status in ("PENDING", "APPROVED"):
        await asyncio.sleep(0.02)


async def test_one_write_of_a_turn_is_taken_back_and_the_others_stay(sample):
    home = sample(security__autonomy="full")
    (home.workspace / "a.txt").write_text("the owner's")
    first = await wrote(home, "file_write", "k1", path="./a.txt", content="the agent's")
    second = await wrote(home, "file_write", "k2", path="deep/b.txt", content="made")
    async with house(home) as site:
        made, args = await asked_back(home, site, action_id=first)
        assert (made["scope"], args["paths"]) == ("write", ["a.txt"])
        await approved(home, site, made)
        assert (home.workspace / "a.txt").read_text() == "the owner's"
        assert (home.workspace / "deep" / "b.txt").read_text() == "made"
        made, args = await asked_back(home, site, action_id=second)
        await approved(home, site, made)
        assert not (home.workspace / "deep").exists()


async def test_what_a_command_changed_is_taken_back_without_the_rest_of_its_turn(sample):
    home = sample(security__autonomy="full")
    await wrote(home, "file_write", "k1", path="a.txt", content="x")

    def run(_):
        (home.workspace / "made.txt").write_text("x")
        return finished(b"ok")

    home.box = FakeBox(run)
    command = await wrote(home, "shell", "k2", command="make")
    async with house(home) as site:
        made, args = await asked_back(home, site, action_id=command)
        assert (made["scope"], args["paths"]) == ("write", ["made.txt"])
        await approved(home, site, made)
    assert not (home.workspace / "made.txt").exists()
    assert (home.workspace / "a.txt").exists()


async def test_a_command_of_which_nobody_knows_what_it_changed_takes_its_turn_along(sample):
    home = sample(security__autonomy="full")
    await wrote(home, "file_write", "k1", path="a.txt", content="x")
    home.box = FakeBox(lambda _: finished(b"ok"))
    command = await wrote(home, "shell", "k2", command="make")  # and changed nothing
    async with house(home) as site:
        made, args = await asked_back(home, site, action_id=command)
        assert (made["scope"], args.get("paths")) == ("turn", None)


async def test_a_file_is_taken_back_by_its_name(sample):
    home = sample(security__autonomy="full")
    (home.workspace / "a.txt").write_text("one")
    for number, turn in enumerate(("turn_1", "turn_2")):
        await wrote(home, "file_write", f"k{number}", turn, path="a.txt", content=f"{turn}'s")
        await wrote(home, "file_write", f"b{number}", turn, path="b.txt", content=f"{turn}'s")
    async with house(home) as site:
        made, args = await asked_back(home, site, path="a.txt")
        assert args["paths"] == ["a.txt"]
        await approved(home, site, made)
        assert (home.workspace / "a.txt").read_text() == "turn_1's"
        assert (home.workspace / "b.txt").read_text() == "turn_2's"
        nothing = await site.http.post("/v1/files/undo", json={"path": "never.txt"})
        assert code_of(nothing, 409) == "NOTHING_KEPT"
        for body in ({}, {"path": "a.txt", "action_id": "act_1"}):
            assert code_of(await site.http.post("/v1/files/undo", json=body), 422) == "UNFIT"


async def test_what_wrote_nothing_cannot_be_undone(sample):
    home = sample()
    (home.workspace / "a.txt").write_text("x")
    async with house(home) as site:
        read = (await site.http.post("/v1/files/show", json={"path": "a.txt"})).json()
        answer = await site.http.post("/v1/files/undo", json={"action_id": read["action_id"]})
        assert code_of(answer, 409) == "NOTHING_KEPT"
        assert code_of(await site.http.post("/v1/files/undo", json={"action_id": "act_none"}), 404) == "NOT_FOUND"
