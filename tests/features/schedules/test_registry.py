"""The registry file: what is taken, what is refused and where, and what an edit leaves as it was."""

import itertools
import json
import sys

import msgspec
import pytest

from coilclaw.features.schedules.registry import Declared, RegistryBroken, RegistryFile, read_registry
from coilclaw.features.schedules.registry_edit import adding, broken_now, changing, edit_registry, removing
from coilclaw.features.schedules.schedule_entry import changes, new_entry
from coilclaw.features.schedules.store.schedules import JobPayload, SopPayload
from coilclaw.lib.json_position import Place, key_twice, place_of, places_of
from coilclaw.packets.errors import UsageError
from tests.features.schedules.schedule_world import World, entry

SEED = """{
  "version": 1,
  "updated_at": "2026-02-23T20:10:00Z",
  "jobs": [
    {
      "job_id": "cron_daily_intel",
      "enabled": true,
      "timezone": "America/Los_Angeles",
      "schedule_cron": "0 17 * * *",
      "cron_summary": "Every day at 5:00 PM America/Los_Angeles.",
      "cron_notes": null,
      "next_runs_utc": ["2026-02-24T01:00:00Z"],
      "next_runs_local": ["2026-02-23 5:00 PM America/Los_Angeles"],
      "job_spec": {
        "intent": "SELF_REVIEW_INTEL",
        "inputs": { "since": "last_run" },
        "constraints": { "allowed_domains": ["github.com"], "max_prs": 2 }
      },
      "last_run": { "at": "2026-02-22T01:00:00Z", "status": "DONE" }
    }
  ]
}
"""


def faults_of(text):
    with pytest.raises(RegistryBroken) as caught:
        read_registry(text if isinstance(text, bytes) else text.encode())
    return caught.value.faults


def one(**more):
    return read_registry(json.dumps({"version": 1, "jobs": [entry(**more)]}).encode()).declared[0]


def test_the_seeds_own_example_is_taken():
    (declared,) = read_registry(SEED.encode()).declared
    assert declared.schedule_id == "cron_daily_intel"
    assert declared.trigger_config == {"cron": "0 17 * * *"}
    assert isinstance(declared.payload, JobPayload)
    assert declared.payload.constraints.max_prs == 2
    assert (declared.options.misfire, declared.options.overlap) == ("run_once", "skip")
    assert declared.options.catch_up_seconds == 86_400


def test_a_derived_or_unknown_field_changes_no_hash_and_everything_declared_does():
    plain = one()
    assert one(cron_summary="x", owner_note={"a": 1}).declared_hash == plain.declared_hash
    changed = [
        one(cron="5 * * * *"), one(timezone="Europe/Berlin"), one(enabled=False), one(misfire="skip"),
        one(stagger="5m"),
        one(max_failures=1), one(overlap="allow"), one(catch_up_window="1h"), one(job_spec={"intent": "other"}),
    ]  # fmt: skip
    assert len({plain.declared_hash, *(each.declared_hash for each in changed)}) == len(changed) + 1
    assert one(misfire="skip").timing_hash() == plain.timing_hash()
    assert one(enabled=False).timing_hash() != plain.timing_hash()


def test_intervals_and_single_times():
    every = one(cron=None, trigger="interval", interval="90m")
    assert every.trigger_config == {"every_seconds": 5400, "anchor": "1970-01-01T00:00:00Z"}
    once = one(cron=None, trigger="at", at="2026-12-01T09:00", timezone="Europe/Berlin")
    assert once.trigger_config == {"at": "2026-12-01T09:00"}
    assert once.options.catch_up_seconds is None
    sop = one(sop="daily-check", job_spec=None)
    assert sop.payload == SopPayload(sop="daily-check")


LINES = SEED.splitlines()


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "word"),
    [
        ('"0 17 * * *"', '"0 25 * * *"', 9, 24, "hour"),
        ('"0 17 * * *"', '"5/15 * * * *"', 9, 24, "5-59/15"),
        ('"America/Los_Angeles",', '"America/Los_Angels",', 8, 19, "America/Los_Angeles"),
        ('"enabled": true', '"enabled": "yes"', 7, 18, "bool"),
        ('"cron_daily_intel"', '"has spaces"', 6, 17, "job_id"),
        ('"cron_daily_intel"', '"followup_x"', 6, 17, "follow-ups"),
        ('"max_prs": 2', '"max_prs": -2', 17, 72, "max_prs"),
        ('"max_prs": 2', '"max_pr": 2', 17, 71, "max_prs"),
        ('"allowed_domains": ["github.com"]', '"allowed_domains": "github.com"', 17, 45, "array"),
        ('"version": 1', '"version": 2', 2, 14, "version"),
        ('"intent": "SELF_REVIEW_INTEL"', '"intent": "  "', 15, 19, "empty"),
        ('"jobs": [', '"jobs": 5, "x": [', 4, 11, "list"),
        ('"enabled": true,', '"enabled": true', 8, 7, "JSON"),
        ('"enabled": true', '"job_id": "again"', 7, 7, "twice"),
        ('"cron_notes": null', '"misfire": "sometimes"', 11, 18, "sometimes"),
        ('"cron_notes": null', '"stagger": "soon"', 11, 18, "duration"),
        ('"cron_notes": null', '"catch_up_window": "9999d"', 11, 26, "at most"),
        ('"cron_notes": null', '"max_failures": 5000', 11, 23, "1000"),
        ('"cron_notes": null', '"interval": "90m"', 11, 19, "trigger is cron"),
        ('"cron_notes": null', '"trigger": "interval"', 9, 24, "trigger is interval"),
        ('"cron_notes": null', '"sop": "../../etc"', 11, 14, "procedure"),
    ],
)
def test_a_fault_is_pointed_at_by_line_and_column(old, new, line, column, word):
    assert old in SEED
    (fault,) = faults_of(SEED.replace(old, new, 1))
    assert (fault.place.line, fault.place.column) == (line, column), str(fault)
    assert word in fault.text
    assert f"cron/jobs.json, line {line}, column {column}" in str(fault)


def test_every_broken_entry_is_reported_and_two_of_one_id_are_refused():
    jobs = [entry("a", cron="61 * * * *"), entry("b"), entry("b"), {"job_id": "c"}]
    found = faults_of(json.dumps({"version": 1, "jobs": jobs}, indent=1))
    assert len(found) == 3
    assert "'b' appears twice" in found[1].text
    assert "timezone" in found[2].text


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[]", b"{", b'{"version": 1, "jobs": [1]}', b"[" * 100_000])
def test_whatever_lies_there_is_a_fault_and_never_a_crash(data):
    assert faults_of(data)


def test_a_field_that_looks_like_a_slip_is_hinted_at_and_kept():
    made = read_registry(json.dumps({"version": 1, "jobs": [entry(misfier="skip", mine=1)]}).encode())
    (hint,) = made.hints
    assert "misfire" in hint


def test_places_in_a_text():
    text = '{"a": [1, {"b\\"c": null}],\n "d": "x"}'
    assert place_of(text, ("a", 1, 'b"c')) == Place(1, 20)
    assert place_of(text, ("d",)) == Place(2, 7)
    assert place_of(text, ("a", 7)) == Place(1, 7)
    assert place_of("nonsense", ("a",)) == Place(1, 1)
    assert key_twice('{"a": 1,\n "a": 2}') == ("a", Place(2, 2))
    assert key_twice('{"a": 1, "b": {"a": 1}}') is None


def test_many_places_are_found_in_one_walk():
    text = json.dumps({"a": [{"x": 1}, {"y": {"z": 2}}], "b": 3}, indent=1)
    paths = [("a", 1, "y", "z"), ("b",), ("a", 0), ("a", 7), ("a", 1, "y", "z", "deeper"), ()]
    assert places_of(text, paths) == [place_of(text, path) for path in paths]
    assert places_of(text, paths)[0] == Place(8, 10)


def test_a_limit_that_nobody_enforces_is_refused_beside_an_sop_too_and_evidence_is_carried():
    for inner in ({"constraints": {"allowed_tool": ["time"]}}, {"outputs": {"zzz": 1}}):
        with pytest.raises(RegistryBroken, match="is not enforced"):
            one(sop="daily-check", job_spec={"intent": "x", **inner})
    kept = one(sop="daily-check", job_spec={"intent": "x", "outputs": {"evidence_required": ["a"]}})
    assert kept.payload.outputs.evidence_required == ("a",)


def test_the_published_schema_takes_the_seeds_example():
    import jsonschema
    import msgspec

    schema = msgspec.json.schema(RegistryFile)
    jsonschema.validate(json.loads(SEED), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"version": 1, "jobs": [{"job_id": 5}]}, schema)


# Edits


@pytest.fixture
def world(db, clock):
    return World(db, clock)


def edited(world, edit):
    def work(tx):
        return edit_registry(tx, world.clock, world.source, world.file, edit)

    world.db.write_now(work)
    return json.loads(world.registry["data"])


def test_an_edit_keeps_unknown_fields_their_order_and_all_other_entries(world):
    first = {"zeta": [3, {"y": 1, "x": 2}], **entry("a"), "note": "mine — ünïcode"}
    world.file(json.dumps({"hello": 1, "version": 1, "jobs": [first, entry("b")], "after": None}).encode())
    made = edited(world, changing("b", {"schedule_cron": "5 * * * *"}))
    assert list(made) == ["hello", "version", "jobs", "after", "updated_at"]
    assert made["jobs"][0] == first
    assert list(made["jobs"][0]) == list(first)
    assert made["jobs"][1]["schedule_cron"] == "5 * * * *"
    assert made["jobs"][1]["cron_summary"] == "Every hour at 12:05 AM, 1:05 AM, 2:05 AM, … UTC."
    assert made["jobs"][1]["next_runs_utc"][0] == "2026-03-01T12:05:00Z"
    assert made["jobs"][1]["next_runs_local"][0] == "2026-03-01 12:05 PM UTC"
    assert made["updated_at"].startswith("2026-03-01T12:00:00")
    assert world.events("schedule_added", "b")[0]["by"] == "cli"


def test_edits_leave_audit_events_with_the_hashes_before_and_after(world):
    edited(world, adding(entry("a")))
    edited(world, changing("a", {"enabled": False}))
    edited(world, changing("a", {"enabled": True}))
    edited(world, changing("a", {"misfire": "skip"}))
    edited(world, removing("a"))
    story = [world.events(f"schedule_{name}", "a")[0] for name in ("added", "disabled", "enabled", "edited", "removed")]
    assert story[0]["before"] is None
    for earlier, later in itertools.pairwise(story):
        assert later["before"] == earlier["after"]
    assert story[-1]["after"] is None
    assert world.row("a") is None


def test_a_broken_file_is_never_rewritten(world):
    world.file(b'{"version": 1, "jobs": [{]}')
    with pytest.raises(RegistryBroken):
        edited(world, adding(entry("a")))
    assert world.registry["data"] == b'{"version": 1, "jobs": [{]}'


def test_a_file_that_others_had_a_hand_in_is_neither_edited_nor_taken_over(world):
    world.declare(entry("a"))
    world.registry["labels"] = ("untrusted:web",)
    with pytest.raises(RegistryBroken, match="untrusted:web"):
        edited(world, adding(entry("b")))


def test_an_edit_that_would_break_the_file_names_no_place_in_it(world):
    with pytest.raises(UsageError) as caught:
        edited(world, adding(entry("a", cron="22-2 * * * *")))
    assert "line" not in str(caught.value)
    assert world.registry["data"] is None


def test_a_time_that_has_passed_is_refused_when_it_is_added(world):
    with pytest.raises(UsageError, match="passed"):
        edited(world, adding(entry("a", cron=None, trigger="at", at="2020-01-01T00:00:00Z")))


def test_the_same_id_twice_and_an_unknown_one_are_refused(world):
    edited(world, adding(entry("alpha")))
    with pytest.raises(UsageError, match="schedule edit alpha"):
        edited(world, adding(entry("alpha")))
    with pytest.raises(UsageError, match="Did you mean alpha"):
        edited(world, removing("alpa"))


@pytest.mark.parametrize("data", [None, b""])
async def test_a_file_that_is_gone_or_empty_is_not_written_again_over_the_schedules_that_stood_in_it(world, data):
    world.declare(entry("a"))
    await world.tick()
    world.file(data)
    with pytest.raises((UsageError, RegistryBroken)):
        edited(world, adding(entry("b")))
    assert world.registry["data"] == data
    assert world.row("a") is not None


async def test_a_file_that_is_gone_is_made_when_nothing_stood_in_it(world):
    world.declare()
    await world.tick()
    world.file(None)
    assert [job["job_id"] for job in edited(world, adding(entry("b")))["jobs"]] == ["b"]


def test_what_lies_in_the_files_place_is_not_called_gone(world):
    world.registry.update(data=None)
    odd = msgspec.structs.replace(world.source, stamp=lambda: (1,))
    assert "not a regular file" in str(broken_now(odd, {}))
    assert broken_now(world.source, {}) is None


def test_a_change_that_the_owner_saves_meanwhile_stays(world):
    world.declare(entry("a"))
    saved = []

    def edit(jobs):
        if not saved:
            saved.append(1)
            world.declare(entry("a"), entry("mine"))
        adding(entry("b"))(jobs)

    assert [job["job_id"] for job in edited(world, edit)["jobs"]] == ["a", "mine", "b"]


def test_a_file_that_never_stands_still_is_left_alone(world):
    world.declare(entry("a"))
    with pytest.raises(UsageError, match="keeps changing"):
        edited(world, lambda jobs: world.declare(entry("a")))


def test_what_cannot_begin_is_refused_when_it_is_new_and_can_still_be_switched_off(world):
    world.declare(entry("a", sop="gone"))

    def refuse(edit):
        world.db.write_now(
            lambda tx: edit_registry(
                tx, world.clock, world.source, world.file, edit, lambda declared: [f"No {declared.schedule_id}."]
            )
        )

    for edit in (adding(entry("b", sop="gone")), changing("a", {"sop": "other"})):
        with pytest.raises(UsageError, match=r"No [ab]\."):
            refuse(edit)
    refuse(changing("a", {"stagger": "5m"}))
    refuse(changing("a", {"enabled": False}))
    with pytest.raises(UsageError, match=r"No a\."):
        refuse(changing("a", {"enabled": True}))


# Secrets


def hide(text):
    return text.replace("hunter2", "[hidden]")


@pytest.mark.parametrize(
    "spec",
    [
        {"intent": "log in with hunter2"},
        {"intent": "x", "inputs": {"steps": ["say hunter2"]}},
        {"intent": "x", "inputs": {"a": [{"hunter2": 1}]}},
    ],
)
async def test_a_secret_is_a_fault_and_never_stored(world, spec):
    world.registry["hide"] = hide
    world.declare(entry("a", job_spec=spec))
    await world.tick()
    assert world.row("a") is None
    assert "this contains a secret" in str(world.said)
    assert "hunter2" not in str(world.said)
    world.declare()
    with pytest.raises(UsageError, match="this contains a secret"):
        edited(world, adding(entry("b", job_spec=spec)))


def test_a_fault_that_quotes_a_secret_is_reported_without_it():
    data = json.dumps({"version": 1, "jobs": [entry("a", timezone="hunter2")]}).encode()
    with pytest.raises(RegistryBroken) as caught:
        read_registry(data, redact=hide)
    assert "hunter2" not in str(caught.value)


async def test_what_became_a_secret_later_is_not_stored_with_a_job(db, clock):
    world = World(db, clock, redact=hide)
    world.declare(entry(job_spec={"intent": "use hunter2", "inputs": {"steps": ["say hunter2"], "k": {"hunter2": 1}}}))
    await world.tick()
    world.clock.advance(hours=1)
    await world.tick()
    (row,) = db.reader.execute("SELECT spec_json || goal || coalesce(plan_json, '') FROM jobs").fetchall()
    assert "[hidden]" in row[0]
    assert "hunter2" not in row[0]


# From the command line


def test_an_entry_from_options(clock):
    given = {"cron": "0 9 * * 1-5", "timezone": "Europe/Berlin", "goal": "Look at the Mail!", "tools": ("time",)}
    made = new_entry(None, given, clock.now, {"look-at-the-mail"}, enabled=True)
    assert made["job_id"] == "look-at-the-mail-2"
    assert made["job_spec"] == {"intent": "Look at the Mail!", "constraints": {"allowed_tools": ["time"]}}
    every = new_entry("x", {"interval": "90m", "goal": "g"}, clock.now, (), enabled=False)
    assert every["anchor"] == "2026-03-01T12:00:00Z"
    assert (every["timezone"], every["enabled"]) == ("UTC", False)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"goal": "g", "timezone": "UTC"}, "no time"),
        ({"cron": "* * * * *", "goal": "g"}, "time zone"),
        ({"cron": "* * * * *", "timezone": "UTC"}, "nothing to do"),
        ({"cron": "* * * * *", "at": "x", "timezone": "UTC", "goal": "g"}, "exclude"),
        ({"cron": "* * * * *", "timezone": "UTC", "goal": "g", "sop": "s"}, "either"),
    ],
)
def test_what_is_missing_is_reported(given, word, clock):
    with pytest.raises(UsageError, match=word):
        new_entry(None, given, clock.now, (), enabled=True)


def test_a_change_of_the_kind_of_trigger_drops_what_belonged_to_the_old_one(world, clock):
    edited(world, adding(entry("a")))
    made = edited(world, changing("a", changes({"interval": "2h"}, clock.now)))["jobs"][0]
    assert made["trigger"] == "interval"
    assert "schedule_cron" not in made
    assert world.row("a").trigger_config["every_seconds"] == 7200


MANY = 200
CHANGES = {
    "add": adding(entry("new", cron="7 7 * * *")),
    "edit": changing("s100", {"job_spec": {"intent": "do something else"}}),
    "pause": changing("s100", {"enabled": False}),
    "remove": removing("s100"),
}


async def of_many(db, clock):
    world = World(db, clock)
    world.declare(*(entry(f"s{number:03d}", cron=f"{number % 60} 9 * * *") for number in range(MANY)))
    await world.tick()
    return world


def rows_of(db):
    return {row[0]: row for row in db.reader.execute("SELECT * FROM schedules")}


@pytest.mark.parametrize("change", CHANGES)
async def test_one_edit_among_many_schedules_writes_only_what_changed(db, clock, change):
    world = await of_many(db, clock)
    before = rows_of(db)
    clock.advance(minutes=1)

    def write(tx):
        started = tx.total_changes
        edit_registry(tx, clock, world.source, world.file, CHANGES[change])
        return tx.total_changes - started

    assert db.write_now(write) <= 4, "the schedule, its audit event, the mark of the file, the owner"
    after = rows_of(db)
    touched = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert touched == ({"new"} if change == "add" else {"s100"})


async def test_taking_over_a_file_with_one_other_entry_writes_only_that_row(db, clock):
    world = await of_many(db, clock)
    before = rows_of(db)
    clock.advance(minutes=1)
    jobs = json.loads(world.registry["data"])["jobs"]
    jobs[100]["job_spec"] = {"intent": "do something else"}
    world.declare(*jobs)
    await world.tick()
    after = rows_of(db)
    assert [name for name in after if before[name] != after[name]] == ["s100"]


@pytest.mark.parametrize("change", CHANGES)
async def test_one_edit_among_many_schedules_hashes_each_of_them_once(db, clock, change):
    world = await of_many(db, clock)
    hashed = []

    def watch(frame, event, _):
        if event == "call" and frame.f_code is Declared.declared_hash.func.__code__:
            hashed.append(frame.f_locals["self"].schedule_id)

    def write(tx):
        sys.setprofile(watch)
        try:
            edit_registry(tx, clock, world.source, world.file, CHANGES[change])
        finally:
            sys.setprofile(None)

    db.write_now(write)
    assert len(hashed) <= MANY + 3, "only the entry that changed is looked at again"


def test_an_entry_that_differs_only_in_kind_is_read_again():
    read = {}
    good = json.dumps({"version": 1, "jobs": [entry(enabled=True)]}).encode()
    read_registry(good, entries_read=read)
    with pytest.raises(RegistryBroken, match="expected `bool`"):  # though 1 == True
        read_registry(good.replace(b'"enabled": true', b'"enabled": 1'), entries_read=read)
