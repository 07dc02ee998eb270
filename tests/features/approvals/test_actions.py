"""Actions over HTTP: found by what they are, told whole, resolved and proposed again."""

import asyncio

import pytest

from coilclaw.features.approvals.commands.approvals import _waiting, find_action
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import untrusted
from coilclaw.packets.errors import UsageError
from tests.features.approvals.queue_home import approve, code_of, queue_home
from tests.server.parts import queue_part
from tests.server.site import served

BOGUS = {
    "challenge_id": "chl_x",
    "id": "x",
    "response": {"authenticatorData": "x", "clientDataJSON": "x", "signature": "x"},
}


async def ids(site, **params):
    answer = await site.http.get("/v1/actions", params=params)
    assert answer.status_code == 200, answer.text
    return [action["action_id"] for action in answer.json()["items"]]


async def test_actions_are_found_by_what_they_are(tmp_path):
    with queue_home(tmp_path) as q:
        read = (await q.home.call("file_list", key="r", path=".")).action
        chat = Turn("turn_2", "thr_1", "chat")
        written = await q.propose("file_write", turn=chat, path="notes/100%_sure.txt", content="Aardvark")
        sent = await q.send(text="hi")
        q.wait(hours=1)
        late = await q.write("late.txt")
        async with served(q.home, queue_part) as site:
            assert await ids(site) == [late, sent, written, read.action_id]
            assert await ids(site, status="EXECUTED") == [read.action_id]
            assert await ids(site, status="PENDING", tool="file_write") == [late, written]
            assert await ids(site, lane="B") == [sent]
            assert await ids(site, source="chat") == [written]
            assert await ids(site, thread_id="thr_1") == [written]
            assert await ids(site, job_id="job_none") == []
            assert await ids(site, since=q.load(late).created_at) == [late]
            assert await ids(site, until=q.load(late).created_at) == [sent, written, read.action_id]
            assert await ids(site, since="2001-01-01T00:00:00+02:00", until="2001-01-02") == []
            assert await ids(site, q="aardvark") == [written]
            assert await ids(site, q="100%_") == [written]
            assert await ids(site, q="%") == [written]
            assert await ids(site, q="webhook_s") == [sent]
            assert await ids(site, q=sent) == [sent]
            assert await ids(site, q="hello\\n") == [late]
            assert await ids(site, q="\0") == []


async def test_pages_of_actions_hold_each_once_while_new_ones_come(tmp_path):
    with queue_home(tmp_path) as q:
        made = [await q.write(f"{number}.txt") for number in range(5)]
        async with served(q.home, queue_part) as site:
            first = (await site.http.get("/v1/actions", params={"limit": 2})).json()
            await q.write("new.txt")
            rest = (await site.http.get("/v1/actions", params={"limit": 200, "cursor": first["next_cursor"]})).json()
            seen = [action["action_id"] for action in (*first["items"], *rest["items"])]
            assert seen == made[::-1]
            assert rest["next_cursor"] is None


async def test_bad_filters_are_refused(tmp_path):
    with queue_home(tmp_path) as q:
        async with served(q.home, queue_part) as site:
            for name, value in (
                ("status", "waiting"), ("lane", "D"), ("source", "me"), ("since", "yesterday"), ("until", ""),
                ("limit", "0"), ("limit", "201"), ("limit", "1e9"), ("q", "x" * 201), ("cursor", "bnVsbA"),
            ):  # fmt: skip
                answer = await site.http.get("/v1/actions", params={name: value})
                assert answer.status_code in (400, 422), answer.text
                assert answer.json()["code"] in ("BAD_REQUEST", "BAD_MOMENT", "BAD_CURSOR"), name
            for moment in ("0000-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:60-23:59",
                           "2026-01-01t00:00:00.123456789z"):  # fmt: skip
                assert (await site.http.get("/v1/actions", params={"since": moment})).status_code == 200, moment
            assert (await site.http.get("/v1/actions?q=%ed%a0%80&tool=%ff")).status_code == 200


async def test_one_action_is_reported_whole(tmp_path):
    with queue_home(tmp_path) as q:
        action_id = await q.write()
        async with served(q.home, queue_part) as site:
            waiting = (await site.http.get(f"/v1/actions/{action_id}")).json()
            assert waiting["args"] == {"path": "a.txt", "content": "hello\n"}
            assert waiting["decision"]["verdict"] == "ask"
            assert waiting["card"]["digest"] == waiting["action"]["digest"]
            assert (waiting["outcome"], waiting["fault"]) == (None, "")
            await approve(site, action_id)
            await q.status(action_id, "EXECUTED")
            done = (await site.http.get(f"/v1/actions/{action_id}")).json()
            assert done["card"] is None
            assert done["outcome"]["success"] is True
            assert done["story"]["agrees"] is True
            assert done["story"]["approval"]["approved_by"] == "device:dev_test"
            assert done["story"]["receipts"][0]["receipt"]["id"] == done["outcome"]["receipt_id"]
            story = await site.http.get(f"/v1/audit/{action_id}/story")
            assert story.json() == {**done["story"], "about": "Write 6 bytes to a.txt.", "refusal": None}


async def test_a_damaged_receipt_or_result_hides_nothing_else(tmp_path):
    with queue_home(tmp_path) as q:
        action_id = await q.write()
        async with served(q.home, queue_part) as site:
            await approve(site, action_id)
            await q.status(action_id, "EXECUTED")
            await q.home.app.db.write(lambda tx: tx.execute("UPDATE receipts SET line = 'x'"))
            await q.home.app.db.write(lambda tx: tx.execute("UPDATE proposed_actions SET result_json = '{'"))
            told = (await site.http.get(f"/v1/actions/{action_id}")).json()
            assert told["action"]["status"] == "EXECUTED"
            assert (told["story"], told["outcome"]) == (None, None)
            assert "damaged" in told["fault"]
            assert code_of(await site.http.get(f"/v1/audit/{action_id}/story"), 500) == "LEDGER_BROKEN"
            assert (await site.http.get("/v1/receipts")).json()["items"] == []
            resolved = await site.http.post(f"/v1/actions/{action_id}/resolve", json={"verdict": "executed"})
            assert code_of(resolved, 409) == "NOT_UNKNOWN"


async def unknown(q, site):
    """A message whose end nobody knows."""
    action_id = await q.send(answers=[500])
    await approve(site, action_id)
    await q.status(action_id, "UNKNOWN")
    return action_id


async def test_the_owner_says_how_it_ended_and_saying_it_again_changes_nothing(tmp_path):
    with queue_home(tmp_path, approvals__lane_b_proof="token") as q:
        async with served(q.home, queue_part) as site:
            for verdict, status, other in (("executed", "EXECUTED", "retry"), ("not-executed", "FAILED", "executed")):
                action_id = await unknown(q, site)
                for _ in range(2):
                    answer = await site.http.post(f"/v1/actions/{action_id}/resolve", json={"verdict": verdict})
                    assert answer.status_code == 200
                    assert answer.json()["action"]["status"] == status
                    assert answer.json()["outcome"]["code"].startswith("RESOLVED")
                refused = await site.http.post(f"/v1/actions/{action_id}/resolve", json={"verdict": other})
                assert code_of(refused, 409) == "NOT_UNKNOWN"
            assert q.receiver.keys() == ["k1", "k2"]
            events = (await site.http.get("/v1/audit", params={"event_type": "tool_resolved"})).json()["items"]
            assert [event["payload"]["by"] for event in events] == ["device:dev_test"] * 2


async def test_a_retry_sends_the_same_once_more_and_at_once(tmp_path):
    with queue_home(tmp_path, approvals__lane_b_proof="token") as q:
        async with served(q.home, queue_part) as site:
            action_id = await unknown(q, site)
            answers = await asyncio.gather(
                *(site.http.post(f"/v1/actions/{action_id}/resolve", json={"verdict": "retry"}) for _ in range(4))
            )
            assert 200 in {answer.status_code for answer in answers}
            assert {answer.status_code for answer in answers} <= {200, 409}
            await q.status(action_id, "EXECUTED")
            assert q.receiver.keys() == ["k1", "k1"]


async def test_resolving_what_left_this_machine_needs_a_passkey(tmp_path):
    with queue_home(tmp_path) as q:
        action_id = await q.send(answers=[500])
        await q.home.approve(action_id)
        assert q.load(action_id).status == "UNKNOWN"
        async with served(q.home, queue_part) as site:
            for verdict in ("executed", "not-executed", "retry"):
                for body in ({"verdict": verdict}, {"verdict": verdict, "proof": BOGUS}):
                    answer = await site.http.post(f"/v1/actions/{action_id}/resolve", json=body)
                    assert code_of(answer, 403) == "PROOF_NEEDED"
            assert q.load(action_id).status == "UNKNOWN"
            assert code_of(await site.http.post(f"/v1/actions/{action_id}/resolve", json={"verdict": "x"}), 400)
            assert code_of(await site.http.post("/v1/actions/act_no/resolve", json={"verdict": "retry"}), 404)


async def test_what_is_not_unknown_is_not_resolved(tmp_path):
    with queue_home(tmp_path) as q:
        action_id = await q.write()
        async with served(q.home, queue_part) as site:
            answer = await site.http.post(f"/v1/actions/{action_id}/resolve", json={"verdict": "executed"})
            assert code_of(answer, 409) == "NOT_UNKNOWN"
            assert q.load(action_id).status == "PENDING"


async def test_a_refused_action_is_proposed_again_and_says_where_it_came_from(tmp_path):
    with queue_home(tmp_path, approvals__lane_b_proof="token") as q:
        turn = Turn("turn_1", "", "chat", fresh=(untrusted("web:evil.example"),))
        denied = (await q.home.call("webhook_send", turn=turn, key="d", target="door", payload={"a": "b"})).action
        assert denied.status == "REJECTED"
        async with served(q.home, queue_part) as site:
            answer = await site.http.post(f"/v1/actions/{denied.action_id}/repropose")
            assert answer.status_code == 201
            new = answer.json()
            assert (new["status"], new["provenance"]) == ("PENDING", ["untrusted:web:evil.example"])
            assert new["action_id"] != denied.action_id
            assert (await approve(site, new["action_id"])).status_code == 200
            await q.status(new["action_id"], "EXECUTED")
            again = await site.http.post(f"/v1/actions/{new['action_id']}/repropose")
            assert code_of(again, 409) == "NOT_REFUSED"
            assert code_of(await site.http.post("/v1/actions/act_no/repropose"), 404) == "NOT_FOUND"


async def test_the_same_request_proposes_again_only_once(tmp_path):
    with queue_home(tmp_path) as q:
        action_id = await q.write()
        async with served(q.home, queue_part) as site:
            await site.http.post(f"/v1/approvals/{action_id}/reject", json={})
            refused = q.load(action_id)
            approvals = site.serving.core.approvals
            first = await approvals.repropose(refused, key="key_one")
            second = await approvals.repropose(refused, key="key_one")
            assert first.action_id == second.action_id
            assert (await approvals.repropose(refused)).action_id == first.action_id  # its card waits
            await approvals.reject(first, reason="")
            assert (await approvals.repropose(refused)).action_id != first.action_id


async def test_who_said_no_is_told_apart_and_every_row_says_what_it_is(tmp_path):
    with queue_home(tmp_path) as q:
        denied = (await q.home.call("no_such_tool", key="d")).action.action_id
        rejected, withdrawn, expired = [await q.write(f"{number}.txt") for number in range(3)]
        async with served(q.home, queue_part) as site:
            said = await site.http.post(f"/v1/approvals/{rejected}/reject", json={"reason": 'the "code":"WITHDRAWN"'})
            assert said.json()["action"]["refusal"] == "rejected"
            await site.serving.core.approvals.withdraw(q.load(withdrawn), reason="its job was cancelled")
            q.wait(days=3)
            await site.serving.core.approvals.expire()
            for refusal, action_id in (
                ("rejected", rejected), ("denied", denied), ("withdrawn", withdrawn), ("expired", expired),
            ):  # fmt: skip
                assert await ids(site, refusal=refusal) == [action_id]
                shown = (await site.http.get(f"/v1/actions/{action_id}")).json()["action"]
                assert (shown["status"], shown["refusal"]) == ("REJECTED", refusal)
            rows = {row["action_id"]: row for row in (await site.http.get("/v1/actions")).json()["items"]}
            assert rows[rejected]["summary"] == "Write 6 bytes to 0.txt."
            assert rows[denied]["summary"] == "no_such_tool"
            receipts = (await site.http.get("/v1/receipts", params={"refusal": "withdrawn"})).json()["items"]
            assert [(each["receipt"]["action_id"], each["refusal"], each["about"]) for each in receipts] == [
                (withdrawn, "withdrawn", "Write 6 bytes to 1.txt.")
            ]
            one = (await site.http.get(f"/v1/receipts/{receipts[0]['receipt']['id']}")).json()
            assert (one["refusal"], one["about"]) == ("withdrawn", "Write 6 bytes to 1.txt.")


async def test_the_last_action_and_the_last_that_waits_need_no_id(tmp_path):
    with queue_home(tmp_path) as q:
        app = q.home.app
        with pytest.raises(UsageError, match="nothing is waiting"):
            _waiting(app, "last")
        await q.write("a.txt")
        waits = await q.write("b.txt")
        assert _waiting(app, "last").action_id == waits
        await q.home.call("file_list", key="r1", path=".")
        assert find_action(app, "last").call.tool == "file_list"
        assert _waiting(app, "last").action_id == waits


async def test_a_summary_is_redacted_before_it_is_cut(tmp_path):
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2"
    with queue_home(tmp_path) as q:
        await q.write(f"{'n' * 150}/{token}.txt")
        async with served(q.home, queue_part) as site:
            row = (await site.http.get("/v1/actions")).json()["items"][0]
            assert "ghp_" not in row["summary"]
            assert len(row["summary"]) <= 200
