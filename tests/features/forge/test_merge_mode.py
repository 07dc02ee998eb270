"""Making merges stricter is an action with a receipt that needs no proof; nobody but the owner's surfaces makes it."""

from datetime import timedelta

import pytest

from coilclaw.features.forge.forge import LocalForge
from coilclaw.features.forge.merge_mode import ending_yolo, tightening
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import ToolCall
from coilclaw.packets.errors import UsageError
from coilclaw.runtime.owner_calls import OwnerCalls
from coilclaw.store.yolo import set_yolo

WHITELIST = '[forge]\nenabled = true\nmerge_mode = "whitelist"\n'


def open_home(sample, config=WHITELIST, **more):
    first = sample(forge__enabled=True)
    first.home.config_file.write_text(config)
    first.close()
    return type(first)(first.folder, environ={"COILCLAW_FORGE_ENABLED": "true", **more})


def tools(home):
    return [row[0] for row in home.app.db.reader.execute("SELECT tool FROM proposed_actions ORDER BY rowid")]


@pytest.mark.parametrize("autonomy", ["readonly", "supervised", "full"])
async def test_tightening_is_carried_out_at_once_with_a_receipt(sample, autonomy):
    home = open_home(sample, COILCLAW_SECURITY_AUTONOMY=autonomy)
    app = home.app
    app.db.write_now(lambda tx: set_yolo(tx, app.clock() + timedelta(hours=8)))
    assert LocalForge(app).mode() == "yolo"
    done = await OwnerCalls(app, home.conveyor()).make(tightening(app), by="terminal", key=None)
    assert (done.status, done.decision.verdict, done.decision.lane) == ("EXECUTED", "allow", "A")
    assert home.receipts()[-1].tool == "bot_tighten"
    assert home.owner.cards == [], "nobody was asked"
    assert LocalForge(app).mode() == "strict"
    assert 'merge_mode = "strict"' in home.home.config_file.read_text()
    assert tightening(app) is None
    home.close()


async def test_estop_does_not_keep_the_owner_from_tightening_and_holds_everything_else(sample):
    home = open_home(sample)
    app = home.app
    app.estop.engage("test", "now")
    calls = OwnerCalls(app, home.conveyor())
    done = await calls.make(tightening(app), by="terminal", key=None)
    assert (done.status, home.receipts()[-1].status) == ("EXECUTED", "allowed")
    assert 'merge_mode = "strict"' in home.home.config_file.read_text()
    args = {"before": "", "after": ""}
    of_model = await home.call("bot_tighten", Turn("turn_x", "conv_x", "chat"), "key-chat", **args)
    yolo = await calls.make(ToolCall.of("bot_yolo", {"hours": 8}), by="terminal", key=None)
    assert of_model.result.code == "ESTOP"
    assert (yolo.status, yolo.decision.code) == ("REJECTED", "ESTOP")
    home.close()


async def test_ending_yolo_leaves_the_configuration_as_it_is(sample):
    home = open_home(sample)
    app = home.app
    assert ending_yolo(app) is None
    app.db.write_now(lambda tx: set_yolo(tx, app.clock() + timedelta(hours=8)))
    await OwnerCalls(app, home.conveyor()).make(ending_yolo(app), by="terminal", key=None)
    assert LocalForge(app).mode() == "whitelist"
    assert tools(home) == ["bot_tighten"]
    home.close()


@pytest.mark.parametrize("source", ["chat", "job", "cli", "schedule", "sop"])
async def test_no_model_changes_the_mode(sample, source):
    home = open_home(sample)
    args = {"before": "", "after": ""}
    outcome = await home.call("bot_tighten", Turn("turn_x", "conv_x", source), f"key-{source}", **args)
    assert outcome.result.code == "TOOL_NOT_ALLOWED"
    home.close()


@pytest.mark.parametrize("settled_after", [3600.0, 0.0])
async def test_a_file_that_changed_meanwhile_is_left_alone(sample, monkeypatch, settled_after):
    monkeypatch.setattr("coilclaw.runtime.live_config.SETTLED_SECONDS", settled_after)
    home = open_home(sample)
    call = tightening(home.app)
    text = home.home.config_file.read_text().replace("enabled = true", "enabled = true\npr_days = 3")
    home.home.config_file.write_text(text)
    done = await OwnerCalls(home.app, home.conveyor()).make(call, by="terminal", key=None)
    assert done.status == "FAILED"
    assert home.home.config_file.read_text() == text
    home.close()


def test_a_variable_that_comes_first_is_told(sample):
    home = open_home(sample, '[forge]\nmerge_mode = "strict"\n', COILCLAW_FORGE_MERGE_MODE="whitelist")
    with pytest.raises(UsageError, match="COILCLAW_FORGE_MERGE_MODE"):
        tightening(home.app)
    home.close()
