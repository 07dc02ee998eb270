"""Vouching for a file: only the owner's own call, with their proof, for exactly what was shown."""

import asyncio

import pytest

from coilclaw.features.owner_files.vouching import vouch_call
from coilclaw.gate.turn import Turn
from coilclaw.packets.canonical import parse_object, sha256_hex
from coilclaw.store.actions import load_action
from tests.server.house import code_of, events, house, passkey_of, signed

WEB = "untrusted:web"
TEXT = "what somebody else wrote, at some length"


def labelled(home, path="in.md", text=TEXT, label=WEB):
    """A file of the workspace that holds untrusted content."""
    (home.workspace / path).write_text(text)
    labels = home.app.root.labels
    looked = labels.look([path])
    home.app.db.write_now(lambda tx: labels.mark(tx, looked, [label]))
    return {"path": path, "sha256": sha256_hex(text.encode())}


async def approve(home, site, passkey, action_id):
    card = (await site.http.get(f"/v1/approvals/{action_id}")).json()
    action = load_action(home.app.db.reader, action_id)
    asked = {"subject": action_id, "digest": action.digest, "valid_until": action.expires_at}
    proof = signed(site, passkey, purpose="approve", **asked)
    body = {"digest": card["digest"], "seen": card["seen"], "proof": proof}
    done = await site.http.post(f"/v1/approvals/{action_id}/approve", json=body)
    assert done.status_code in (200, 202), done.text
    while load_action(home.app.db.reader, action_id).status in ("PENDING", "APPROVED"):
        await asyncio.sleep(0.02)
    return load_action(home.app.db.reader, action_id)


async def test_vouching_waits_for_the_passkey_and_the_file_is_the_owners_then(sample):
    home = sample()
    body = labelled(home)
    async with house(home) as site:
        passkey = passkey_of(site)
        key = {"Idempotency-Key": "0123456789abcdef"}
        made = (await site.http.post("/v1/files/vouch", json=body, headers=key)).json()
        assert (made["status"], made["needs"]) == ("PENDING", "passkey")
        assert (await site.http.post("/v1/files/vouch", json=body, headers=key)).json() == made
        card = (await site.http.get(f"/v1/approvals/{made['action_id']}")).json()
        assert (card["lane"], card["proof"]) == ("C", "passkey")
        assert f"in.md  {WEB}" in card["preview_or_diff"]
        bare = {"digest": card["digest"], "seen": card["seen"]}
        said = await site.http.post(f"/v1/approvals/{made['action_id']}/approve", json=bare)
        assert said.status_code in (401, 403)
        assert home.app.root.labels.labels_of("in.md") == (WEB,)
        assert (await approve(home, site, passkey, made["action_id"])).status == "EXECUTED"
        assert home.app.root.labels.labels_of("in.md") == ()
        assert not (await site.http.post("/v1/files/show", json={"path": "in.md"})).json()["untrusted"]
        assert len(events(home, "label_forgotten")) == 1


async def test_nobody_vouches_for_what_they_were_not_shown(sample):
    home = sample()
    body = labelled(home)
    async with house(home) as site:
        passkey = passkey_of(site)
        made = (await site.http.post("/v1/files/vouch", json=body)).json()
        labelled(home, text="something else came in its place, labelled too")
        assert code_of(await site.http.post("/v1/files/vouch", json=body), 409) == "FILE_CHANGED"
        assert (await approve(home, site, passkey, made["action_id"])).status == "FAILED"
        assert home.app.root.labels.labels_of("in.md") == (WEB,)


async def test_what_has_no_label_or_is_not_there_is_not_vouched_for(sample):
    home = sample()
    (home.workspace / "mine.md").write_text("mine")
    (home.workspace / "away.md").symlink_to("/etc/hostname")
    async with house(home) as site:
        mine = {"path": "mine.md", "sha256": sha256_hex(b"mine")}
        assert code_of(await site.http.post("/v1/files/vouch", json=mine), 409) == "NOT_LABELLED"
        for path in (
            "nowhere.md",
            "away.md",
            "../x",
            "/etc/hostname",
            "a\0b",
            "\0",
            "x/" * 2000,
            "n" * 300,
            "a//b",
            ".",
        ):
            answer = await site.http.post("/v1/files/vouch", json={"path": path, "sha256": "0" * 64})
            assert code_of(answer, 409) == "FILE_CHANGED", path
        assert (await site.http.get("/v1/approvals")).json()["items"] == []


@pytest.mark.parametrize("source", ["chat", "job", "schedule", "sop", "cli"])
async def test_no_model_can_vouch_for_a_file(sample, source):
    home = sample(security__autonomy="full")
    labelled(home)
    args = parse_object(vouch_call(home.app, "in.md").args_bytes)
    refused = await home.call("file_vouch", Turn("turn_v", "", source), **args)
    assert refused.result.code == "TOOL_NOT_ALLOWED"
    assert not home.owner.cards
    assert home.app.root.labels.labels_of("in.md") == (WEB,)
    assert "file_vouch" not in home.app.allowed_tools
