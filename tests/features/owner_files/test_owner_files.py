"""Policies, skills and the system prompt over HTTP: read as they are, written through the gate."""

import asyncio
import hashlib

import pytest

from coilclaw.store.actions import load_action
from tests.server.house import code_of, events, house, passkey_of, policy, rule, signed

SECRET = "sk-or-v1-0123456789abcdef0123456789abcdef"


def sha(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


async def test_policy_files_are_listed_by_name_with_what_is_wrong_with_them(sample):
    home = sample()
    folder = home.workspace / "policies"
    (folder / "a.json").write_text(policy(rule("a"), {"id": "b", "when": {"tol": 1}, "verdict": "deny", "reason": "x"}))
    (folder / "link.json").symlink_to("default.json")
    (folder / "notes.txt").write_text("no policy")
    async with house(home) as site:
        first = (await site.http.get("/v1/policies", params={"limit": 2})).json()
        assert [each["name"] for each in first["items"]] == ["a.json", "default.json"]
        faulty, good = first["items"]
        assert (good["valid"], good["faults"], good["sha256"]) == (True, [], sha(folder / "default.json"))
        assert faulty["valid"] is False
        assert faulty["faults"] == [
            {"line": 5, "path": "$.rules[1].when", "text": "Object contains unknown field `tol`"}
        ]
        rest = (await site.http.get("/v1/policies", params={"cursor": first["next_cursor"]})).json()
        assert [(each["name"], each["valid"]) for each in rest["items"]] == [("link.json", False)]
        assert rest["next_cursor"] is None


async def test_a_policy_file_is_shown_whole(sample):
    home = sample()
    async with house(home) as site:
        told = (await site.http.get("/v1/policies/default.json")).json()
        path = home.workspace / "policies" / "default.json"
        assert told["file"]["content"] == path.read_text()
        assert told["file"]["sha256"] == sha(path)
        assert (told["valid"], told["file"]["redacted"]) == (True, False)


@pytest.mark.parametrize(
    "name",
    ["none.json", "default", "..", "%2e%2e%2fSYSTEM.md", ".json", "%00.json", "%ff.json", "a%2fb.json", "x" * 500],
)
async def test_what_is_not_a_policy_file_is_not_there(sample, name):
    async with house(sample()) as site:
        assert (await site.http.get(f"/v1/policies/{name}")).status_code == 404


async def test_a_new_policy_waits_for_the_owners_passkey_and_is_then_in_force(sample):
    home = sample()
    async with house(home) as site:
        passkey = passkey_of(site)
        content = policy(rule("no-writing"))
        answer = await site.http.put("/v1/policies/mine.json", json={"content": content, "if_sha256": ""})
        assert answer.status_code == 202
        told = answer.json()
        assert (told["status"], told["decision"]["lane"], told["needs"]) == ("PENDING", "C", "passkey")
        assert not (home.workspace / "policies" / "mine.json").exists()
        action = load_action(home.app.db.reader, told["action_id"])
        assert (action.source, action.taint, action.call.tool) == ("gateway", (), "file_write")

        card = (await site.http.get(f"/v1/approvals/{action.action_id}")).json()
        body = {"digest": card["digest"], "seen": card["seen"]}
        approve = f"/v1/approvals/{action.action_id}/approve"
        assert code_of(await site.http.post(approve, json=body), 403) == "PROOF_NEEDED"
        asked = {"subject": action.action_id, "digest": action.digest, "valid_until": action.expires_at}
        proof = signed(site, passkey, purpose="approve", **asked)
        assert (await site.http.post(approve, json={**body, "proof": proof})).status_code == 200
        for _ in range(8000):
            if load_action(home.app.db.reader, action.action_id).status == "EXECUTED":
                break
            await asyncio.sleep(0.005)
        assert (home.workspace / "policies" / "mine.json").read_text() == content
        assert (await site.http.get("/v1/settings/policy")).json()["rules"][1]["id"] == "no-writing"
        assert (await home.call("file_write", path="x.txt", content="x")).result.code == "POLICY_RULE"


@pytest.mark.parametrize("registered", [True, False])
@pytest.mark.parametrize(
    ("route", "path", "lane"),
    [
        ("/v1/policies/mine.json", "policies/mine.json", "C"),
        ("/v1/system-prompt", "SYSTEM.md", "C"),
        ("/v1/skills/tidy", "skills/tidy/SKILL.md", "A"),
    ],
)
async def test_what_saving_takes_is_what_trying_it_forecasts(sample, registered, route, path, lane):
    home = sample()
    async with house(home) as site:
        if registered:
            passkey_of(site)
        call = {"tool": "file_write", "args": {"path": path, "content": ""}, "source": "gateway"}
        told = (await site.http.post("/v1/policy/check", json=call)).json()
        wanted = "" if lane == "A" else "passkey" if registered else "passkey_missing"
        assert (told["decision"]["verdict"], told["decision"]["lane"], told["needs"]) == ("ask", lane, wanted)
        content = policy(rule("quiet")) if path.endswith(".json") else "Be brief.\n"
        edited = (await site.http.put(route, json={"content": content})).json()
        assert (edited["decision"]["lane"], edited["needs"]) == (lane, wanted)
        assert edited["status"] == ("EXECUTED" if lane == "A" else "PENDING")
        if lane == "C":
            approve = f"/v1/approvals/{edited['action_id']}/approve"
            card = (await site.http.get(f"/v1/approvals/{edited['action_id']}")).json()
            body = {"digest": card["digest"], "seen": card["seen"]}
            assert code_of(await site.http.post(approve, json=body), 403) == "PROOF_NEEDED"
            assert load_action(home.app.db.reader, edited["action_id"]).status == "PENDING"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("{", "line 1"),
        ('{"version": 1,\n"rules": [\n{]}', "line 3"),
        (policy(rule(), version=2), "line 2"),
        (policy(rule("a"), rule("a")), "line 5"),
        (policy(rule("no-environment-files")), "already used"),
        ("[" * 5000, "line 1"),
    ],
)
async def test_a_policy_that_would_be_invalid_is_refused_with_its_lines(sample, content, line):
    home = sample()
    async with house(home) as site:
        answer = await site.http.put("/v1/policies/mine.json", json={"content": content})
        assert code_of(answer, 422) == "POLICY_INVALID"
        assert line in answer.json()["detail"]
        assert home.statuses() == []


@pytest.mark.parametrize(
    "name", ["mine", "..json", "a%2fb.json", "%2e%2e.json", "ü.json", "x" * 90 + ".json", "a b.json"]
)
async def test_a_policy_file_has_a_plain_name(sample, name):
    home = sample()
    async with house(home) as site:
        answer = await site.http.put(f"/v1/policies/{name}", json={"content": policy(rule())})
        assert answer.status_code in (400, 404)
        assert home.statuses() == []


async def test_a_skill_is_written_at_once_because_the_owner_asked(sample):
    home = sample()
    path = home.workspace / "skills" / "tidy-notes" / "SKILL.md"
    async with house(home) as site:
        before = (await site.http.get("/v1/skills/tidy-notes")).json()
        assert before["file"]["content"] == path.read_text()
        body = {"content": "# Shorter\n", "if_sha256": before["file"]["sha256"]}
        answer = await site.http.put("/v1/skills/tidy-notes", json=body)
        assert answer.status_code == 200
        told = answer.json()
        assert (told["status"], told["decision"]["lane"], told["decision"]["risk"]) == ("EXECUTED", "A", "R2")
        assert path.read_text() == "# Shorter\n"
        assert load_action(home.app.db.reader, told["action_id"]).approved_by == "device:dev_test"
        assert [receipt.status for receipt in home.receipts()] == ["allowed"]
        assert events(home, "tool_approved")[0]["by"] == "device:dev_test"


async def test_skills_are_listed_with_what_they_are_for(sample):
    home = sample()
    (home.workspace / "skills" / "empty").mkdir()
    (home.workspace / "skills" / "away").symlink_to(home.folder)
    async with house(home) as site:
        items = (await site.http.get("/v1/skills")).json()["items"]
        assert [(each["name"], bool(each["description"]), each["size"] > 0) for each in items] == [
            ("empty", False, False),
            ("tidy-notes", True, True),
        ]
        for name in ("none", "empty", "away", "..", "%00", "%2e%2e%2fpolicies"):
            assert (await site.http.get(f"/v1/skills/{name}")).status_code == 404


async def test_in_full_autonomy_it_is_written_without_further_ado(sample):
    home = sample(security__autonomy="full")
    async with house(home) as site:
        answer = await site.http.put("/v1/skills/new-one", json={"content": "x", "if_sha256": ""})
        assert (answer.status_code, answer.json()["status"]) == (200, "EXECUTED")
        assert (home.workspace / "skills" / "new-one" / "SKILL.md").read_text() == "x"


async def test_what_changed_meanwhile_is_not_overwritten(sample):
    home = sample()
    async with house(home) as site:
        paths = ("/v1/skills/tidy-notes", "/v1/policies/default.json", "/v1/system-prompt")
        for path in paths:
            for wrong in ("", "0" * 64):
                body = {"content": policy(rule()), "if_sha256": wrong}
                assert code_of(await site.http.put(path, json=body), 412) == "FILE_CHANGED"
            assert code_of(await site.http.put(path, json={"content": "x", "if_sha256": "abc"}), 400) == "BAD_REQUEST"
        assert home.statuses() == []


async def test_the_gate_may_still_say_no(sample):
    home = sample(security__autonomy="readonly")
    async with house(home) as site:
        answer = await site.http.put("/v1/skills/tidy-notes", json={"content": "x"})
        assert code_of(answer, 403) == "AUTONOMY_READONLY"
        assert "supervised" in answer.json()["remedy"]
        assert [receipt.status for receipt in home.receipts()] == ["denied"]


async def test_a_broken_policy_file_is_shown_with_its_faults_and_mended_on_the_machine_alone(sample):
    home = sample(security__autonomy="full")
    path = home.workspace / "policies" / "mine.json"
    path.write_text('{"version": 1,\n"rules": [\n')
    whole, texts = policy(rule("quiet", tool="shell")), (path.read_text(), (home.workspace / "SYSTEM.md").read_text())
    async with house(home) as site:
        passkey_of(site)
        shown = (await site.http.get("/v1/policies/mine.json")).json()
        assert (shown["valid"], shown["file"]["content"]) == (False, texts[0])
        assert shown["faults"][0]["line"] == 3
        asked = {"content": whole, "if_sha256": shown["file"]["sha256"]}
        for route, body in (
            ("/v1/policies/mine.json", asked),
            ("/v1/policies/other.json", {"content": whole}),
            ("/v1/system-prompt", {"content": "Be kind.\n"}),
            ("/v1/skills/tidy-notes", {"content": "# Shorter\n"}),
        ):
            answer = await site.http.put(route, json=body)
            assert code_of(answer, 403) == "POLICY_BROKEN"
            told = answer.json()
            assert "policies/mine.json" in told["detail"]
            assert "on the machine" in told["remedy"]
            assert "`coilclaw policy show`" in told["remedy"]
        assert home.statuses() == ["REJECTED"] * 4
        assert [receipt.status for receipt in home.receipts()] == ["denied"] * 4
        assert (path.read_text(), (home.workspace / "SYSTEM.md").read_text()) == texts
        assert (await home.call("file_write", path="a.txt", content="x")).result.code == "POLICY_BROKEN"
        assert (await home.call("file_read", path="SYSTEM.md")).action.status == "EXECUTED"
        # What it would be if the file held can be tried before anybody goes to the machine.
        call = {"tool": "shell", "args": {"command": "ls"}, "file": {"name": "mine.json", "content": whole}}
        assert (await site.http.post("/v1/policy/check", json=call)).json()["decision"]["code"] == "POLICY_RULE"

        path.write_text(whole)
        shown = (await site.http.get("/v1/policies/mine.json")).json()
        assert (shown["valid"], shown["faults"]) == (True, [])
        answer = await site.http.put("/v1/policies/mine.json", json={"content": policy(rule("loud", tool="shell"))})
        assert (answer.status_code, answer.json()["decision"]["lane"]) == (202, "C")


async def test_a_skill_or_a_prompt_that_is_not_text_is_mended_like_any_other(sample):
    home = sample()
    skill, prompt = home.workspace / "skills" / "tidy-notes" / "SKILL.md", home.workspace / "SYSTEM.md"
    for path in (skill, prompt):
        path.write_bytes(b"---\ndescription: [\n\xff\xfe\x00")
    async with house(home) as site:
        shown = (await site.http.get("/v1/skills/tidy-notes")).json()["file"]
        assert shown["redacted"] is True
        body = {"content": "# Whole\n", "if_sha256": shown["sha256"]}
        assert (await site.http.put("/v1/skills/tidy-notes", json=body)).json()["status"] == "EXECUTED"
        assert skill.read_text() == "# Whole\n"
        shown = (await site.http.get("/v1/system-prompt")).json()
        body = {"content": "Be kind.\n", "if_sha256": shown["sha256"]}
        told = (await site.http.put("/v1/system-prompt", json=body)).json()
        assert (told["status"], told["decision"]["lane"]) == ("PENDING", "C")
        await home.approve(told["action_id"], by="terminal")
        assert prompt.read_text() == "Be kind.\n"


async def test_nothing_is_written_while_everything_is_stopped(sample):
    home = sample()
    async with house(home) as site:
        await site.http.post("/estop")
        assert code_of(await site.http.put("/v1/skills/x", json={"content": "x"}), 403) == "ESTOP"
        assert not (home.workspace / "skills" / "x").exists()


async def test_a_secret_is_neither_written_nor_shown(sample):
    home = sample(environ={"COILCLAW_OPENROUTER_API_KEY": SECRET})
    path = home.workspace / "skills" / "tidy-notes" / "SKILL.md"
    path.write_text(f"use {SECRET}\n")
    async with house(home) as site:
        told = (await site.http.get("/v1/skills/tidy-notes")).json()
        assert SECRET not in str(told)
        assert told["file"]["redacted"] is True
        answer = await site.http.put("/v1/skills/other", json={"content": f"use {SECRET}"})
        assert code_of(answer, 403) == "SECRET_NOT_GRANTED"
        assert SECRET not in answer.text


async def test_a_file_that_cannot_be_replaced_is_reported(sample):
    home = sample()
    (home.workspace / "skills" / "odd" / "SKILL.md").mkdir(parents=True)
    async with house(home) as site:
        answer = await site.http.put("/v1/skills/odd", json={"content": "x"})
        assert code_of(answer, 409) == "FILE_ERROR"


async def test_the_same_request_twice_is_one_action(sample):
    home = sample()
    async with house(home) as site:
        for path, body in (
            ("/v1/policies/mine.json", {"content": policy(rule()), "if_sha256": ""}),
            ("/v1/skills/mine", {"content": "x", "if_sha256": ""}),
        ):
            headers = {"Idempotency-Key": f"key-{path}"}
            answers = [await site.http.put(path, json=body, headers=headers) for _ in range(3)]
            assert len({answer.json()["action_id"] for answer in answers}) == 1
        assert home.statuses() == ["PENDING", "EXECUTED"]


async def test_a_request_that_comes_again_after_a_crash_continues_where_it_was(sample):
    """Between the effect and the answer: nobody kept the answer, and the file is no longer what it was."""
    from coilclaw.features.owner_files.owner_files import OwnerFiles
    from coilclaw.features.owner_files.views import PutFile

    home = sample()
    async with house(home) as site:
        files = OwnerFiles(site.serving)
        data = PutFile(content="x", if_sha256="")
        first = await files.put("skills/mine/SKILL.md", data, by="device:dev_test", key="k")
        again = await files.put("skills/mine/SKILL.md", data, by="device:dev_test", key="k")
        assert first == again
        assert home.statuses() == ["EXECUTED"]
        both = await asyncio.gather(
            *(files.put("skills/two/SKILL.md", data, by="device:dev_test", key="k2") for _ in range(4)),
            return_exceptions=True,
        )
        made = {each.action_id for each in both if not isinstance(each, BaseException)}
        assert len(made) == 1
        assert home.statuses() == ["EXECUTED", "EXECUTED"]


async def test_the_system_prompt_is_the_owners_alone(sample):
    home = sample()
    async with house(home) as site:
        told = (await site.http.get("/v1/system-prompt")).json()
        assert told["content"] == (home.workspace / "SYSTEM.md").read_text()
        answer = await site.http.put("/v1/system-prompt", json={"content": "Be kind.\n", "if_sha256": told["sha256"]})
        assert (answer.status_code, answer.json()["decision"]["lane"]) == (202, "C")
        assert (home.workspace / "SYSTEM.md").read_text() == told["content"]
        answer = await site.http.put("/v1/system-prompt", json={"content": "ü" * 200_000})
        assert code_of(answer, 400) == "BAD_REQUEST"
        (home.workspace / "SYSTEM.md").unlink()
        empty = (await site.http.get("/v1/system-prompt")).json()
        assert (empty["sha256"], empty["content"]) == ("", "")


@pytest.mark.parametrize("body", [{}, {"content": 5}, {"content": "x", "more": 1}, [], None, {"content": "\ud800"}])
async def test_bad_bodies_change_nothing(sample, body):
    import json

    home = sample()
    async with house(home) as site:
        for path in ("/v1/policies/a.json", "/v1/skills/a", "/v1/system-prompt"):
            data = json.dumps(body).encode()
            answer = await site.http.put(path, content=data, headers={"Content-Type": "application/json"})
            assert answer.status_code == 400, answer.text
        assert home.statuses() == []
