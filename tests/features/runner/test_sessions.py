"""Sessions over HTTP with real keepers and boxes: from the request to the receipt of their end."""

import asyncio
import re
import shutil

import pytest

from coilclaw.config.runner import Org, Plan, Plans
from coilclaw.packets.errors import BoxTooSlow
from coilclaw.store.actions import load_action
from tests.features.runner.session_world import REPO, until
from tests.missing import lacks

pytestmark = pytest.mark.slow


async def test_a_session_is_started_typed_into_and_ended_with_a_receipt(sessions_of_a_home):
    world = sessions_of_a_home()
    async with world.serving() as site:
        session_id = await world.start(site, task={"title": "Look around"})
        told = (await site.http.get(f"/runner/v1/sessions/{session_id}")).json()
        assert (told["state"], told["branch"]) == ("RUNNING", f"coil/{session_id}")
        typed = await site.http.post(
            f"/runner/v1/sessions/{session_id}/input", json={"data": "echo s$((40+2))s; exit 3", "mode": "line"}
        )
        assert typed.status_code == 204, typed.text
        await until(lambda: world.row(session_id).state == "COMPLETED")
        row = world.row(session_id)
        assert (row.code, row.exit_code) == ("EXITED", 3)
        assert "s42s" in await world.text(site, session_id)
        kinds = [each.type for each in world.events(session_id)]
        assert kinds[:4] == ["SESSION_STATE_CHANGED"] * 3 + ["SESSION_STARTED"]
        assert "USAGE_TICK" in kinds
        assert [each.seq for each in world.events(session_id)] == list(range(1, len(kinds) + 1))
        await until(lambda: len(world.sample.receipts()) == 2)
        tools = [receipt.tool for receipt in world.sample.receipts()]
        assert tools == ["session_start", "session_end"]
        await until(lambda: world.sessions.keepers.running() == ())


async def test_a_session_whose_box_was_too_slow_is_started_once_more(sessions_of_a_home, monkeypatch):
    world = sessions_of_a_home()
    box, slow = world.app.open_box(), [BoxTooSlow(10)]
    settle = box._settle

    async def settled(workspace):
        if slow:
            raise slow.pop()
        return await settle(workspace)

    monkeypatch.setattr(box, "_settle", settled)
    async with world.serving() as site:
        assert world.row(await world.start(site)).state == "RUNNING"
    assert slow == []


async def test_what_was_changed_is_told_and_shown(sessions_of_a_home):
    world = sessions_of_a_home()
    async with world.serving() as site:
        session_id = await world.start(site)
        line = "echo 'b = 2' >> src/a.py; git commit -qam two; echo new > other.txt; echo done"
        await site.http.post(f"/runner/v1/sessions/{session_id}/input", json={"data": line, "mode": "line"})
        await until(lambda: len(world.events(session_id, "FILE_TOUCHED")) >= 2)
        touched = {each.data["path"]: each.data["room_path"] for each in world.events(session_id, "FILE_TOUCHED")}
        assert touched == {"src/a.py": "src", "other.txt": ""}
        assert world.events(session_id, "DIFF_SUMMARY")[-1].data["changed_files"] == 2
        shown = (await site.http.get(f"/runner/v1/sessions/{session_id}/diff")).json()
        assert {each["path"] for each in shown["files"]} == {"src/a.py", "other.txt"}
        assert "+b = 2" in shown["patch"]
        one = (await site.http.get(f"/runner/v1/sessions/{session_id}/diff", params={"path": "other.txt"})).json()
        assert "+new" in one["patch"]
        assert "b = 2" not in one["patch"]
        await world.sessions.type_in(session_id, "mv other.txt /tmp", line=True)
        await until(lambda: world.events(session_id, "DIFF_SUMMARY")[-1].data["changed_files"] == 1)
        gone = world.events(session_id, "FILE_TOUCHED")[-1].data
        assert gone == {"path": "other.txt", "room_path": "", "reason": "diff", "status": ""}
    assert (world.folder / "src" / "a.py").read_text() == "a = 1\n"


async def test_a_server_that_is_gone_loses_nothing(sessions_of_a_home):
    world = sessions_of_a_home()
    async with world.serving() as site:
        session_id = await world.start(site)
        await site.http.post(
            f"/runner/v1/sessions/{session_id}/input",
            json={"data": "for i in $(seq 1 30); do echo tick $i; sleep 0.1; done", "mode": "line"},
        )
        await until(lambda: "tick 3\n" in world.sessions.recorded_text(session_id))
    assert world.row(session_id).state == "RUNNING"
    assert world.sessions.keepers.running() == (session_id,)
    async with world.serving() as site:
        await until(lambda: "tick 30\n" in world.sessions.recorded_text(session_id))
        lines = world.sessions.recorded_text(session_id).splitlines()
        assert [each for each in lines if each.startswith("tick ")] == [f"tick {n}" for n in range(1, 31)]
        assert (await site.http.post(f"/runner/v1/sessions/{session_id}/stop")).status_code == 200
        await until(lambda: world.row(session_id).state == "COMPLETED")
        assert world.row(session_id).code == "STOPPED"


@pytest.mark.parametrize("started", [True, False])
async def test_pausing_stops_everything_and_resuming_goes_on(sessions_of_a_home, started):
    """Also before the program has started, when the line that was typed is shown by the terminal alone."""
    world = sessions_of_a_home()
    async with world.serving() as site:
        session_id = await world.start(site)
        await site.http.post(
            f"/runner/v1/sessions/{session_id}/input",
            json={"data": "while true; do echo beat; sleep 0.05; done", "mode": "line"},
        )
        if started:
            await until(lambda: "\nbeat" in world.sessions.recorded_text(session_id))
        paused = (await site.http.post(f"/runner/v1/sessions/{session_id}/pause")).json()
        assert paused["state"] == "PAUSED_BY_HUMAN"
        before = -1
        async with asyncio.timeout(60):
            while before != (before := await world.written(session_id)):
                await asyncio.sleep(2)  # forty beats; what was on its way arrives meanwhile
        resumed = (await site.http.post(f"/runner/v1/sessions/{session_id}/resume")).json()
        assert resumed["state"] == "RUNNING"

        async def more():
            return await world.written(session_id) > before

        await until(more)


async def test_a_lost_keeper_is_a_failure_with_a_receipt_and_an_alert(sessions_of_a_home):
    import os
    import signal

    world = sessions_of_a_home()
    async with world.serving() as site:
        session_id = await world.start(site)
        keeper = await world.sessions.keepers.attach(session_id)
        os.kill(keeper.pid, signal.SIGKILL)
        await until(lambda: world.row(session_id).state == "FAILED")
        assert world.row(session_id).code == "LOST"
        await until(lambda: len(world.sample.receipts()) == 2)
        assert [receipt.tool for receipt in world.sample.receipts()] == ["session_start", "session_end"]
        assert world.events(session_id, "ALERT_RAISED")[-1].data["code"] == "LOST"
        again = await site.http.post(f"/runner/v1/sessions/{session_id}/input", json={"data": "x"})
        assert (again.status_code, again.json()["code"]) == (409, "SESSION_OVER")


async def test_over_the_plan_is_refused_or_queued_in_order(sessions_of_a_home):
    orgs = {"acme": Org(plan="enterprise", repos=("*",), providers=("*",))}
    world = sessions_of_a_home(plans=Plans(enterprise=Plan(sessions=1)), orgs=orgs)
    async with world.serving() as site:
        first = await world.start(site)
        refused = await site.http.post("/runner/v1/sessions", json={"repo": REPO})
        assert (refused.status_code, refused.json()["code"]) == (429, "OVER_PLAN")
        assert "queue" in refused.json()["remedy"]
        second = await world.start(site, queue=True)
        third = await world.start(site, queue=True)
        assert [world.row(each).state for each in (second, third)] == ["CREATED", "CREATED"]
        other = await world.start(site, org_id="acme", queue=True)  # waits for nobody else's sessions
        assert world.row(other).state == "RUNNING"
        await site.http.post(f"/runner/v1/sessions/{first}/stop")
        await until(lambda: world.row(second).state == "RUNNING")
        assert world.row(third).state == "CREATED"


@pytest.mark.parametrize("billing", [{"limits": {"max_concurrency": 1}}, {"plan": "free"}, {"plan": "enterprise"}])
async def test_a_request_narrows_its_plan_and_never_widens_it(sessions_of_a_home, billing):
    plans = Plans(free=Plan(sessions=1), team=Plan(sessions=2), enterprise=Plan(sessions=9))
    orgs = {"acme": Org(plan="team", repos=("site",), providers=("shell",))}
    world = sessions_of_a_home(plans=plans, orgs=orgs)
    room = 2 if billing.get("plan") == "enterprise" else 1
    async with world.serving() as site:
        asked = {"repo": REPO, "org_id": "acme", "billing": billing}
        answers = [await site.http.post("/runner/v1/sessions", json=asked) for _ in range(room + 1)]
        assert [answer.status_code for answer in answers] == [201] * room + [429]
        strange = await site.http.post("/runner/v1/sessions", json={**asked, "repo": {"name": "other"}})
        assert (strange.status_code, "may not use" in strange.text) == (422, True)


async def test_events_usage_and_repositories_are_told_over_http(sessions_of_a_home):
    world = sessions_of_a_home()
    async with world.serving() as site:
        session_id = await world.start(site)
        await site.http.post(f"/runner/v1/sessions/{session_id}/stop")
        await until(lambda: world.row(session_id).state == "COMPLETED")
        told = (await site.http.get(f"/runner/v1/sessions/{session_id}/events")).json()
        assert [each["seq"] for each in told["items"]] == list(range(1, told["last"] + 1))
        assert {"type", "session_id", "org_id", "repo_ref", "ts", "seq"} <= told["items"][0].keys()
        later = (await site.http.get(f"/runner/v1/sessions/{session_id}/events", params={"after": 3})).json()
        assert later["items"] == told["items"][3:]
        (month,) = (await site.http.get("/runner/v1/usage")).json()["items"]
        assert (month["org_id"], month["provider"]) == ("self", "shell")
        assert month["terminal_kb"] + month["agent_seconds"] >= 0
        assert "site" in str((await site.http.get("/runner/v1/repos")).json()["items"])


async def test_what_cannot_be_started_is_a_named_problem(sessions_of_a_home):
    world = sessions_of_a_home()
    async with world.serving() as site:
        for body, status, code in (
            ({"repo": {"name": "nowhere"}}, 409, "REPO_UNKNOWN"),
            ({"repo": REPO, "org_id": "others"}, 422, "UNFIT"),
            ({"repo": REPO, "checkout": {"ref": "gone"}}, 409, "REF_GONE"),
            ({"repo": REPO, "checkout": {"ref": "--upload-pack=x"}}, 409, "REF_GONE"),
            ({"repo": REPO, "room_path": "../.."}, 409, "ROOM_UNKNOWN"),
            ({"repo": REPO, "size": {"rows": 0, "columns": 0}}, 400, "BAD_REQUEST"),
            ({"repo": REPO, "provider": "other"}, 400, "BAD_REQUEST"),
        ):
            answer = await site.http.post("/runner/v1/sessions", json=body)
            assert (answer.status_code, answer.json()["code"]) == (status, code), (body, answer.text)


async def test_policy_only_narrows(sessions_of_a_home):
    world = sessions_of_a_home()
    async with world.serving() as site:
        policy = {"shell_denylist": ["git", "rm -rf /"], "forbidden_paths": ["src"]}
        session_id = await world.start(site, policy=policy, mode="read")
        line = "git --version; ls src; touch x; echo over-$?"
        await site.http.post(f"/runner/v1/sessions/{session_id}/input", json={"data": line, "mode": "line"})
        await until(lambda: "over-1" in world.sessions.recorded_text(session_id).split("over-$?", 1)[-1])
        said = world.sessions.recorded_text(session_id)
        assert "git version" not in said
        assert "a.py" not in said
        forbidden = await site.http.post(
            f"/runner/v1/sessions/{session_id}/input", json={"data": "sudo rm  -rf / --x", "mode": "line"}
        )
        assert (forbidden.status_code, forbidden.json()["code"]) == (403, "FORBIDDEN_INPUT")


async def test_a_session_is_given_the_secrets_of_its_own_organization_alone(sessions_of_a_home):
    values = {"ACME_KEY": "acme-7f3a91c2e5d84b06", "RIVAL_KEY": "rival-c41be07a9d52f8360"}
    orgs = {name: Org(secrets=(f"{name.upper()}_KEY",), repos=("*",), providers=("*",)) for name in ("acme", "rival")}
    world = sessions_of_a_home(orgs=orgs, environ=values)
    line = "echo n${#ACME_KEY},${#RIVAL_KEY}n $ACME_KEY $RIVAL_KEY; exit"
    seen = {}
    async with world.serving() as site:
        for org_id in ("acme", "rival", "self"):
            session_id = await world.start(site, org_id=org_id)
            await site.http.post(f"/runner/v1/sessions/{session_id}/input", json={"data": line, "mode": "line"})
            await until(lambda session_id=session_id: world.row(session_id).state == "COMPLETED")
            seen[org_id] = await world.text(site, session_id)
    lengths = {org_id: found[0] for org_id, text in seen.items() if (found := re.findall(r"n\d+,\d+n", text))}
    assert lengths == {"acme": "n21,0n", "rival": "n0,23n", "self": "n0,0n"}
    assert [value for value in values.values() for text in seen.values() if value in text] == []


async def test_estop_ends_sessions_and_says_so(sessions_of_a_home):
    world = sessions_of_a_home()
    async with world.serving() as site:
        session_id = await world.start(site)
        world.app.estop.file.write_text("2026-11-17T00:00:00.000Z stop\n")
        await until(lambda: world.row(session_id).state == "FAILED")
        assert world.row(session_id).code == "ESTOP"
        refused = await site.http.post("/runner/v1/sessions", json={"repo": REPO})
        assert refused.status_code in (409, 503), refused.text
        world.app.estop.file.unlink()


async def test_a_session_that_is_over_is_removed_with_its_checkout(sessions_of_a_home):
    world = sessions_of_a_home()
    async with world.serving() as site:
        session_id = await world.start(site)
        early = await site.http.delete(f"/runner/v1/sessions/{session_id}")
        assert (early.status_code, early.json()["code"]) == (409, "SESSION_RUNS")
        await site.http.post(f"/runner/v1/sessions/{session_id}/stop")
        await until(lambda: world.row(session_id).state == "COMPLETED")
        path = world.row(session_id).checkout.path
        assert (await site.http.delete(f"/runner/v1/sessions/{session_id}")).status_code == 204
        assert world.row(session_id) is None
        from pathlib import Path

        assert not Path(path).exists()
        assert not world.sessions.recording_file(session_id).exists()


async def test_stopping_one_that_waits_for_the_owner_takes_its_question_back(sessions_of_a_home):
    world = sessions_of_a_home()
    world.allow("example.com")
    async with world.serving() as site:
        session_id = await world.start(site, policy={"network": {"mode": "open"}})
        action = load_action(world.app.db.reader, world.row(session_id).action_id)
        assert action.status == "PENDING"
        await site.http.post(f"/runner/v1/sessions/{session_id}/stop")
        assert load_action(world.app.db.reader, action.action_id).status == "REJECTED"
        assert (world.row(session_id).state, world.row(session_id).code) == ("COMPLETED", "STOPPED")


async def test_a_session_with_network_waits_for_the_owner_and_reaches_only_what_is_listed(sessions_of_a_home):
    if shutil.which("curl") is None:
        lacks("curl", "Install the package curl.")
    from coilclaw.sandbox.fake_receiver import Receiver, serve

    world = sessions_of_a_home()
    door = serve(Receiver(world.sample.folder / "received.jsonl", deduplicates=False, lookup=False))
    import threading

    threading.Thread(target=door.serve_forever, daemon=True).start()
    listed = f"http://localhost:{door.server_port}"
    world.allow(listed)
    try:
        async with world.serving() as site:
            session_id = await world.start(site, policy={"network": {"mode": "open"}})
            assert world.row(session_id).state == "CREATED"
            action = world.row(session_id).action_id
            await world.sample.approve(action)
            await until(lambda: world.row(session_id).state == "RUNNING")
            ask = "curl -s -o /dev/null -m 60 -w 'code-%{http_code}\\n'"
            await world.sessions.type_in(
                session_id, f"{ask} -d hello {listed}/in; {ask} http://example.com/", line=True
            )
            await until(lambda: world.sessions.recorded_text(session_id).count("\ncode-") == 2)
            codes = [each for each in world.sessions.recorded_text(session_id).splitlines() if each.startswith("code-")]
            assert codes[0] == "code-200"
            assert codes[1] != "code-200"
    finally:
        door.shutdown()
        door.server_close()
