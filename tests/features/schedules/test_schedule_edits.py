"""Edits of schedules over HTTP and from a terminal at once: each is made to what the one before it left."""

import asyncio
import json

import pytest

from coilclaw.features.schedules.registry_edit import adding, changing
from coilclaw.features.schedules.registry_lock import registry_lock
from coilclaw.features.schedules.schedule_entry import new_entry
from coilclaw.features.schedules.scheduler import Scheduler
from tests.features.jobs.work_home import at_work, code_of
from tests.features.schedules.schedule_world import entry
from tests.server.terminal import terminal

EDITS = 15


async def declare(home, *names):
    clockwork = Scheduler(home.app)
    for name in names:
        given = {"cron": "0 9 * * *", "timezone": "UTC", "goal": f"{name} as it was"}
        await clockwork.edit(adding(new_entry(name, given, home.app.clock(), [], enabled=True)))


def goals(home):
    jobs = json.loads((home.workspace / "cron" / "jobs.json").read_text())["jobs"]
    return {job["job_id"]: job["job_spec"]["intent"] for job in jobs}


def in_table(home):
    return {name: json.loads(payload)["intent"] for name, payload in home.app.db.reader.execute(
        "SELECT schedule_id, payload_json FROM schedules")}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("autonomy", ["full", "supervised"])
async def test_edits_of_a_terminal_and_of_a_device_at_once_all_survive(sample, autonomy):
    home = sample(security__autonomy=autonomy)
    mine, theirs = [f"web-{n}" for n in range(EDITS)], [f"terminal-{n}" for n in range(EDITS)]
    await declare(home, *mine, *theirs)
    said, answers = {}, []
    commands = [["schedule", "edit", name, "--goal", f"{name} by the terminal"] for name in theirs]
    async with at_work(home) as site:
        with terminal(home, *commands) as process:
            over = asyncio.ensure_future(asyncio.to_thread(process.stdout.read))
            while not over.done():
                for name in mine:
                    said[name] = f"{name} by the device, {len(answers)}"
                    answer = await site.http.patch(f"/v1/schedules/{name}", json={"goal": said[name]})
                    answers.append((answer.status_code, answer.text if answer.status_code != 200 else ""))
            assert (await over).endswith("done\n")
    assert set(answers) == {(200, "")}
    wanted = {**said, **{name: f"{name} by the terminal" for name in theirs}}
    assert goals(home) == wanted
    assert in_table(home) == wanted


@pytest.mark.slow
async def test_what_the_terminal_changed_is_not_written_over_by_whoever_read_it_before(sample):
    home = sample(security__autonomy="full")
    await declare(home, "shared")
    commands = [["schedule", "edit", "shared", "--goal", f"goal {n}"] for n in range(EDITS)]
    url, seen = "/v1/schedules/shared", set()
    async with at_work(home) as site:
        first = (await site.http.get(url)).json()["hash"]
        with terminal(home, *commands) as process:
            over = asyncio.ensure_future(asyncio.to_thread(process.stdout.read))
            wrong = []
            while not over.done():
                read = (await site.http.get(url)).json()
                answer = await site.http.patch(
                    url, json={"goal": read["goal"], "max_failures": len(seen) + 2}, headers={"If-Match": read["hash"]}
                )
                seen.add(answer.status_code)
                if answer.status_code == 200 and answer.json()["goal"] != read["goal"]:
                    wrong.append((read["goal"], answer.json()["goal"]))
            await over
        assert seen <= {200, 412}
        assert wrong == []
        assert goals(home) == {"shared": f"goal {EDITS - 1}"}, "an old reading brought an old goal back"
        late = await site.http.patch(url, json={"goal": "late"}, headers={"If-Match": first})
        assert code_of(late, 412) == "CHANGED_MEANWHILE"
        assert code_of(await site.http.delete(url, headers={"If-Match": first}), 412) == "CHANGED_MEANWHILE"
        assert goals(home) == {"shared": f"goal {EDITS - 1}"}


async def test_an_edit_waits_for_the_one_that_is_being_made(sample):
    home = sample(security__autonomy="full")
    await declare(home, "a")
    clockwork = Scheduler(home.app)
    async with at_work(home) as site:
        async with registry_lock(home.home.locks_dir):
            web = asyncio.ensure_future(site.http.patch("/v1/schedules/a", json={"goal": "by the device"}))
            cli = asyncio.ensure_future(clockwork.edit(changing("a", {"max_failures": 9})))
            done, _ = await asyncio.wait((web, cli), timeout=0.3)
            assert not done
            assert goals(home) == {"a": "a as it was"}
        assert (await web).status_code == 200
        await cli
        job = json.loads((home.workspace / "cron" / "jobs.json").read_text())["jobs"][0]
        assert (job["job_spec"]["intent"], job["max_failures"]) == ("by the device", 9)


async def test_whoever_gives_up_waiting_leaves_the_lock_free(sample):
    locks = sample().home.locks_dir
    async with registry_lock(locks):
        waiting = [asyncio.ensure_future(registry_lock(locks).__aenter__()) for _ in range(3)]
        await asyncio.sleep(0.05)
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    async with asyncio.timeout(240), registry_lock(locks):
        pass


async def test_one_edit_over_http_leaves_the_rows_of_all_other_schedules_alone(sample):
    home = sample(security__autonomy="full")
    file = home.workspace / "cron" / "jobs.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"version": 1, "jobs": [entry(f"s{number:03d}") for number in range(200)]}))
    await Scheduler(home.app).edit(changing("s000", {"enabled": False}))

    def rows():
        return {row[0]: row for row in home.app.db.reader.execute("SELECT * FROM schedules")}

    before = rows()
    assert len(before) == 200
    async with at_work(home) as site:
        assert (await site.http.patch("/v1/schedules/s100", json={"goal": "another"})).status_code == 200
    after = rows()
    assert [name for name in after if before[name] != after[name]] == ["s100"]
