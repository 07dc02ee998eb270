"""The agent over HTTP: seen, directed, stopped, and taken back only with the owner's proof."""

import os

from coilclaw.features.evolve.feature import evolve_part
from coilclaw.features.evolve.init import make_repository
from coilclaw.features.evolve.places import places_of
from coilclaw.features.evolve.watcher.record import Record
from tests.server.site import served

EVIL = "bad \x1b[2J\u202e thing"


def home_with_agent(sample):
    home = sample()
    source = home.folder / "source"
    source.mkdir()
    make_repository(home.app, source)
    return home, places_of(home.app.home.root)


async def test_without_a_repository_there_is_nothing_to_see_or_do(sample):
    async with served(sample(), evolve_part) as site:
        assert (await site.http.get("/v1/evolve")).json()["exists"] is False
        assert (await site.http.get("/v1/evolve/logs")).status_code == 404
        for path, body in (("directives", {"text": "x"}), ("stop", None), ("release", None)):
            assert (await site.http.post(f"/v1/evolve/{path}", json=body)).status_code == 404
        assert (await site.http.post("/v1/evolve/rollback", json={"ref": "main"})).status_code == 422


async def test_everything_the_panel_shows_without_a_control_character(sample):
    home, places = home_with_agent(sample)
    (places.bot / "logs" / "bootstrap.log").write_text(f"2026-01-01T00:00:00Z FAILED agent/x {EVIL}\nnonsense\n")
    (places.bot / "logs" / "errors.log").write_text(EVIL)
    async with served(home, evolve_part) as site:
        page = (await site.http.post("/v1/evolve/directives", json={"text": EVIL})).json()
        assert "thing" in page["directives"][0]
        assert [each["what"] for each in page["agent"]["starts"]] == ["FAILED"]
        log = (await site.http.get("/v1/evolve/logs")).json()["text"]
        assert "thing" in log
        told = (await site.http.get("/v1/evolve")).text + log
        assert "\x1b" not in told
        assert "\u202e" not in told


async def test_a_secret_in_a_directive_is_not_written_into_the_record(sample):
    home, places = home_with_agent(sample)
    home.app.redactor.register("MY_KEY", "hunter2-hunter2-hunter2")
    async with served(home, evolve_part) as site:
        await site.http.post("/v1/evolve/directives", json={"text": "Use hunter2-hunter2-hunter2 there."})
    text = Record(places.root).comms()
    assert "hunter2" not in text
    assert "there." in text


async def test_what_goes_wrong_for_a_while_is_not_called_a_hold(sample):
    home, places = home_with_agent(sample)
    async with served(home, evolve_part) as site:
        for phase, held, trouble in (("running", "", "no space"), ("held", "no space", "")):
            (places.state / "state.json").write_text(f'{{"phase": "{phase}", "reason": "no space"}}')
            agent = (await site.http.get("/v1/evolve")).json()["agent"]
            assert (agent["held"], agent["trouble"]) == (held, trouble)


async def test_an_agent_that_estop_ended_is_not_said_to_run(sample):
    home, places = home_with_agent(sample)
    (places.state / "state.json").write_text('{"phase": "running", "branch": "main", "sha": "%s"}' % ("a" * 40))
    home.app.estop.engage("test", "now")
    async with served(home, evolve_part) as site:
        agent = (await site.http.get("/v1/evolve")).json()["agent"]
    assert (agent["phase"], agent["branch"], agent["sha"]) == ("stopped", "", "")
    assert "estop --clear" in agent["held"]


async def test_a_log_that_is_a_link_a_pipe_or_a_folder_is_not_read(sample):
    home, places = home_with_agent(sample)
    log = places.bot / "logs" / "errors.log"
    async with served(home, evolve_part) as site:
        log.symlink_to(home.app.home.config_file)
        assert (await site.http.get("/v1/evolve/logs")).json()["text"] == ""
        log.unlink()
        os.mkfifo(log)
        assert (await site.http.get("/v1/evolve/logs")).json()["text"] == ""
        log.unlink()
        log.mkdir()
        assert (await site.http.get("/v1/evolve/logs")).json()["text"] == ""
        log.rmdir()
        log.parent.rmdir()
        (home.folder / "logs").mkdir()
        (home.folder / "logs" / "errors.log").write_text("of another program")
        log.parent.symlink_to(home.folder / "logs")
        assert (await site.http.get("/v1/evolve/logs")).json()["text"] == ""


async def test_a_rollback_waits_for_the_owners_proof_and_orders_nothing_before(sample):
    home, places = home_with_agent(sample)
    main = Record(places.root).main()
    async with served(home, evolve_part) as site:
        assert (await site.http.post("/v1/evolve/rollback", json={"ref": "no-such"})).status_code == 422
        answer = (await site.http.post("/v1/evolve/rollback", json={"ref": main})).json()
        assert (answer["status"], answer["needs"]) == ("PENDING", "passkey_missing")
        assert not list(places.desk.glob("order-*"))
        assert (await home.approve(answer["action_id"])).result.success
        assert len(list(places.desk.glob("order-*.json"))) == 1


async def test_a_device_that_is_not_paired_sees_nothing(sample):
    home, _ = home_with_agent(sample)
    async with served(home, evolve_part) as site:
        assert (await site.bare.get("/v1/evolve")).status_code == 401
