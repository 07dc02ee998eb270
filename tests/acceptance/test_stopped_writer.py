"""A process stopped with the write lock in its hands: commands say who it is and end; ESTOP needs no database."""

import json

import pytest

from tests.acceptance.conftest import HomeAt, Ran, one_sentence
from tests.store.holders import stopped_writer

pytestmark = pytest.mark.slow


def test_commands_say_who_holds_the_database_and_end_with_7(home: HomeAt):
    database = home.root / "memory.sqlite"
    with stopped_writer(database, home.root / "locks") as child:
        assert home.run("estop", "--reason", "smoke").rc == 0
        assert (home.root / "ESTOP").exists()
        started = [home.start("agent", "-m", "hi"), home.start("doctor", "--short", "--json")]
        said = [each.communicate(timeout=180) for each in started]
        agent, doctor = (Ran(each.returncode, *words) for each, words in zip(started, said, strict=True))
    one_sentence(agent, 7, f"process {child.pid} (`", "which is stopped", f"kill -CONT {child.pid}")
    assert f"warning: Waiting: {database} is held by process {child.pid}" in agent.err
    probe = next(probe for probe in json.loads(doctor.out) if probe["name"] == "database")
    assert probe["state"] == "fail"
    assert f"process {child.pid} (`" in probe["detail"]
    assert f"kill -CONT {child.pid}" in probe["remedy"]
