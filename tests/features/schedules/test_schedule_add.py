"""schedule_add through the gate: asked, shown in plain words, written as the owner's own command writes it."""

import json

import pytest

from coilclaw.features.schedules.store.schedules import load_schedule
from coilclaw.gate.turn import Turn

WEEKDAYS = {"goal": "sum up the mail", "cron": "0 9 * * 1-5", "timezone": "Europe/Berlin"}


def registry(home):
    return json.loads((home.workspace / "cron" / "jobs.json").read_text())["jobs"]


async def add(home, turn=None, key="k", **args):
    return await home.call("schedule_add", turn or Turn("turn_1", "conv_1", "chat"), key, **{**WEEKDAYS, **args})


async def test_the_owner_is_asked_in_every_autonomy_and_sees_the_next_three_runs(sample):
    home = sample(security__autonomy="full")
    outcome = await add(home, steps=["read it", "write it up"], max_files=2)
    assert outcome.result.success, outcome.result.output
    (card,) = home.owner.cards
    assert (card.lane, card.risk) == ("A", "R2")
    shown = card.preview_or_diff
    assert "Every weekday" in shown
    assert shown.count("9:00 AM") == 3
    assert "sum up the mail" in shown
    assert "2. write it up" in shown
    assert "Files it may change: 2" in shown
    assert card.offers == ()


async def test_it_is_in_the_registry_as_the_owners_command_writes_it(sample):
    home = sample()
    outcome = await add(home, title="Mail, each morning")
    assert outcome.result.metadata["schedule"] == "mail-each-morning"
    (entry,) = registry(home)
    assert (entry["job_id"], entry["cron"], entry["enabled"]) == ("mail-each-morning", "0 9 * * 1-5", True)
    assert entry["job_spec"]["intent"] == "sum up the mail"
    assert len(entry["next_runs_utc"]) == 3
    assert load_schedule(home.app.db.reader, "mail-each-morning").next_run_utc


async def test_a_no_adds_nothing(sample):
    home = sample()
    home.owner.answer = type(home.owner.answer)(approved=False, reason="not now")
    assert not (await add(home)).result.success
    assert registry(home) == []


@pytest.mark.parametrize("where", ["inherited", "fresh"])
async def test_a_tainted_turn_may_not_propose_one(sample, where):
    home = sample(security__autonomy="full")
    labels = ("untrusted:web",)
    turn = Turn("turn_1", "conv_1", "chat", labels if where == "inherited" else ())
    if where == "fresh":
        turn.take_in("untrusted:web")
    outcome = await add(home, turn)
    assert not outcome.result.success
    assert home.owner.cards == []
    assert registry(home) == []


async def test_readonly_denies_it(sample):
    home = sample(security__autonomy="readonly")
    assert not (await add(home)).result.success
    assert registry(home) == []


async def test_the_same_schedule_is_there_once_however_often_it_is_asked_for(sample):
    home = sample()
    first = await add(home, cron=None, timezone=None, interval="90m")
    again = await add(home, key="k2", cron=None, timezone=None, interval="90m")
    assert first.result.metadata["schedule"] == again.result.metadata["schedule"]
    assert len(registry(home)) == 1
    assert (await add(home, key="k3", goal="sum up the mail twice")).result.success
    assert len(registry(home)) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"cron": None},
        {"cron": "0 9 * * mon-fry"},
        {"timezone": None},
        {"timezone": "Europe/Berlinn"},
        {"interval": "90m"},
        {"cron": None, "interval": "1s"},
        {"goal": ""},
        {"cron": "5/15 * * * *"},
    ],
)
async def test_what_is_not_a_schedule_is_refused_before_the_owner_is_asked(sample, wrong):
    home = sample()
    outcome = await add(home, **wrong)
    assert not outcome.result.success
    assert outcome.result.code != "TOOL_CRASHED"
    assert home.owner.cards == []


@pytest.mark.parametrize(
    "wrong",
    [{"tools": ["nosuch_tool"]}, {"domains": ["example.com"]}, {"cron": None, "at": "2001-01-01T09:00"}],
)
async def test_what_could_never_begin_adds_nothing(sample, wrong):
    home = sample()
    outcome = await add(home, **wrong)
    assert outcome.result.code == "SCHEDULE_REFUSED"
    assert registry(home) == []


async def test_it_can_be_undone(sample):
    home = sample()
    await add(home)
    assert (await home.call("undo", key="u")).result.success
    assert registry(home) == []


async def test_a_registry_that_others_wrote_into_is_left_alone(sample):
    home = sample()
    labels = home.app.root.labels
    looked = labels.look(["cron/jobs.json"])
    home.app.db.write_now(lambda tx: labels.mark(tx, looked, ["untrusted:web"]))
    assert not (await add(home)).result.success
    assert registry(home) == []
