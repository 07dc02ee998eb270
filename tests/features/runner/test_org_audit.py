"""The audit of one organization: all that the ledger holds about it, nothing about others, and comparable later."""

import json

import pytest

from coilclaw.config.runner import Org
from coilclaw.features.runner.org_audit import difference
from coilclaw.ledger.verify import hash_of_line
from coilclaw.packets.canonical import canonical_bytes
from coilclaw.store.actions import load_action
from tests.features.runner.session_world import until
from tests.features.runner.test_hooks import actions, begin, decide, with_fake

pytestmark = pytest.mark.slow
ORGS = {name: Org(plan="team", repos=("*",), providers=("*",)) for name in ("acme", "rival")}


async def used(world, site, org_id):
    """A session that ran, a token for it, and a session that the owner refused; their ids."""
    world.allow("http://localhost:1")
    session_id = await world.start(site, org_id=org_id, task={"title": f"for {org_id}"})
    waits = await world.start(site, org_id=org_id, policy={"network": {"mode": "open"}})
    refused = world.row(waits).action_id
    action = load_action(world.app.db.reader, refused)
    await world.app.approvals(world.sample.conveyor()).reject(action, reason="no", by="terminal")
    await site.http.post("/runner/v1/tokens", json={"org_id": org_id, "access": "watch"})
    await site.http.post(f"/runner/v1/sessions/{session_id}/stop")
    await until(lambda: world.row(session_id).state == "COMPLETED")
    action_id = world.row(session_id).action_id
    assert (await site.http.delete(f"/runner/v1/sessions/{session_id}")).status_code == 204
    return {session_id, waits, action_id, refused}


def stored(world, sql, *values):
    return world.app.db.reader.execute(sql, values).fetchall()


def expected_events(world, org_id):
    """By another way than the code under test: the entities of an organization, then everything about them."""
    sessions = {
        row[0]
        for row in stored(world, "SELECT entity_id, payload_json FROM audit_log WHERE event_type LIKE 'session%'")
        if json.loads(row[1]).get("org_id") == org_id
    }
    actions = {
        row[0]
        for row in stored(world, "SELECT action_id, args_json FROM proposed_actions")
        if json.loads(row[1]).get("session", {}).get("org_id") == org_id or json.loads(row[1])["session_id"] in sessions
    }
    rows = stored(world, "SELECT seq, entity_id, payload_json FROM audit_log ORDER BY seq")
    mine = sessions | actions
    events = [row[0] for row in rows if row[1] in mine or json.loads(row[2]).get("org_id") == org_id]
    return events, actions


async def test_everything_of_one_organization_and_nothing_of_another(sessions_of_a_home):
    world = sessions_of_a_home(orgs=ORGS)
    async with world.serving() as site:
        ours, theirs = await used(world, site, "acme"), await used(world, site, "rival")
        answer = await site.http.get("/runner/v1/orgs/acme/audit")
        assert answer.status_code == 200, answer.text
        head, *lines = [json.loads(line) for line in answer.text.splitlines()]
        assert (head["kind"], head["org_id"]) == ("org_audit", "acme")
        events, actions = expected_events(world, "acme")
        assert [line["seq"] for line in lines if "seq" in line] == events
        assert len(actions) == 3  # one start, its end, and the start that was refused
        receipts = [line for line in lines if "receipt" in line]
        assert {line["receipt"]["action_id"] for line in receipts} == actions
        for line in receipts:  # each proves itself, and is the row of its number
            text = canonical_bytes(line["receipt"])
            assert hash_of_line(text) == line["receipt"]["receipt_hash"]
            assert stored(world, "SELECT line FROM receipts WHERE seq = ?", line["number"]) == [(text.decode(),)]
        assert {line["event_type"] for line in lines if "seq" in line} >= {"session_started", "token_issued"}
        assert all(each in answer.text for each in ours)
        assert not [each for each in theirs | {"rival"} if each in answer.text]
        assert (await site.http.get("/runner/v1/orgs/nobody/audit")).status_code == 404
        for scope, status in (
            ({"org_id": "acme"}, 200),
            ({"org_id": "rival"}, 404),
            ({"org_id": "acme", "repo_id": "site"}, 404),
        ):
            made = (await site.http.post("/runner/v1/tokens", json={**scope, "access": "watch"})).json()
            program = site.client(headers={"Authorization": f"Bearer {made['token']}"})
            assert (await program.get("/runner/v1/orgs/acme/audit")).status_code == status, scope


async def test_an_export_is_compared_with_the_ledger(sessions_of_a_home):
    world = sessions_of_a_home(orgs=ORGS)
    app = world.app

    def differs(lines):
        return difference(app.db.reader, lines, app.redactor.value)

    async with world.serving() as site:
        await used(world, site, "acme")
        text = (await site.http.get("/runner/v1/orgs/acme/audit")).content
        await used(world, site, "acme")  # what happens afterwards is no difference
    lines = text.splitlines(keepends=True)
    assert differs(lines) == ""
    for place in range(1, len(lines)):
        assert differs([*lines[:place], *lines[place + 1 :]])
        changed = lines[place].replace(b'"created_at":"2', b'"created_at":"1').replace(b'"tool":"', b'"tool":"x')
        assert changed != lines[place]
        assert f"line {place + 1} is not" in differs([*lines[:place], changed, *lines[place + 1 :]])
    assert differs([*lines, lines[-1]])
    ahead = json.loads(lines[0]) | {"receipts_up_to": 10_000}
    assert "lacks" in differs([json.dumps(ahead).encode(), *lines[1:]])

    seq = json.loads(lines[1])["seq"]
    app.db.write_now(lambda tx: tx.execute("DELETE FROM audit_log WHERE seq = ?", (seq,)))
    assert "line 2 is not" in differs(lines)  # somebody deleted an event
    gap = "INSERT INTO audit_gaps VALUES (?, ?, x'00', x'00')"
    app.db.write_now(lambda tx: tx.execute(gap, (seq, seq)))
    assert differs(lines) == ""  # retention did


async def test_export_holds_what_a_program_asked_changed_and_was_answered(sessions_of_a_home):
    world = with_fake(sessions_of_a_home(orgs=ORGS))
    script = ("run ls", "write notes.txt hello", "run git push", "run npm install left-pad", "sleep 600")
    async with world.serving() as site:
        session_id = await begin(world, site, *script, org_id="acme")
        await until(lambda: actions(world, session_id, "PENDING"))
        (asked,) = actions(world, session_id, "PENDING")
        await decide(site, session_id, asked, "deny", "no packages")

        async def told():
            answer = await site.http.get("/runner/v1/orgs/acme/audit")
            lines = [json.loads(line) for line in answer.text.splitlines()]
            kinds = {line["event_type"] for line in lines if "seq" in line}
            wanted = {"session_approval_resolved", "session_diff_summary", "session_file_touched"}
            return lines if wanted <= kinds else None

        await until(told)
        lines = await told()
    events = {line["event_type"]: line["payload"] for line in lines if "seq" in line}
    assert events["session_approval_requested"]["summary"].endswith("npm install left-pad")
    assert (events["session_approval_resolved"]["approved"], "no packages" in str(events)) == (False, True)
    assert (events["session_file_touched"]["path"], events["session_diff_summary"]["added"]) == ("notes.txt", 1)
    receipts = [line["receipt"] for line in lines if "receipt" in line]
    log = {(each["tool"], each["status"]) for each in receipts}
    assert log >= {("session_command", "allowed"), ("session_write", "allowed"), ("session_command", "denied")}
    asked = [line["args"] for line in lines if "receipt" in line]
    assert [each["command"] for each in asked if "command" in each] == ["ls", "git push", "npm install left-pad"]
    assert [(each["paths"], "hello" in each["text"]) for each in asked if "paths" in each] == [(["notes.txt"], True)]
