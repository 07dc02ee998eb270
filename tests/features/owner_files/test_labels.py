"""coilclaw labels: what is labelled and why, and the owner vouching at a terminal."""

import json
import os
import subprocess
import sys

import pytest

from coilclaw.gate.labels import FileLabels
from tests.acceptance.conftest import Sitting

EVIL = "untrusted:evil.example"
SCRIPT = """
import sys
from coilclaw.cli import main

sys.argv[0] = "coilclaw"
sys.exit(main())
"""
RUN = [sys.executable, "-c", SCRIPT, "labels"]


@pytest.fixture
def home(sample):
    made = sample()
    made.files = FileLabels(made.app.db, made.app.workspace, made.app.clock)
    made.env = {**os.environ, **made.environ, "COILCLAW_HOME": str(made.home.root)}

    def label(path, content):
        (made.workspace / path).write_text(content)
        looked = made.files.look([path])
        made.app.db.write_now(lambda tx: made.files.mark(tx, looked, [EVIL]))

    made.label = label
    return made


def run(home, *args):
    return subprocess.run([*RUN, *args], env=home.env, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def test_nothing_labelled_is_said_so(home):
    done = run(home, "list")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "No file is labelled" in done.stderr


def test_the_list_says_what_is_labelled_with_what_and_whether_it_counts(home):
    home.label("a.txt", "from the web")
    home.label("b.txt", "from the web too")
    (home.workspace / "b.txt").write_text("mine now")
    told = json.loads(run(home, "list", "--json").stdout)
    assert [(each["path"], each["label"], each["counts"]) for each in told] == [("a.txt", EVIL, True)]
    told = json.loads(run(home, "list", "--all", "--json").stdout)
    assert [(each["path"], each["counts"]) for each in told] == [("a.txt", True), ("b.txt", False)]
    assert run(home, "list").stdout.split("\t")[:2] == ["a.txt", EVIL]


def test_vouching_needs_the_owner_at_a_terminal(home):
    home.label("a.txt", "from the web")
    done = run(home, "forget", "a.txt")
    assert done.returncode == 2
    assert "interactive terminal" in done.stderr
    assert home.files.labels_of("a.txt") == (EVIL,)


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "labels", "rc"), [("y", (), 0), ("n", (EVIL,), 4), ("", (EVIL,), 4)])
def test_the_owner_vouches_or_not(home, answer, labels, rc, tmp_path):
    home.label("a.txt", "from the web")
    sitting = Sitting([*RUN, "forget", "a.txt"], home.env, tmp_path)
    sitting.wait_for("Approve? [y").type(answer + "\r")
    assert sitting.end().rc == rc
    sitting.close()
    assert home.files.labels_of("a.txt") == labels
    events = home.app.db.reader.execute(
        "SELECT entity_id, payload_json FROM audit_log WHERE event_type = 'label_forgotten'"
    ).fetchall()
    assert [(path, json.loads(payload)["label"]) for path, payload in events] == (
        [("a.txt", EVIL)] if not labels else []
    )


@pytest.mark.slow
def test_what_has_no_label_of_its_own_cannot_be_vouched_for(home, tmp_path):
    (home.workspace / "mine.txt").write_text("mine")
    sitting = Sitting([*RUN, "forget", "mine.txt"], home.env, tmp_path)
    assert sitting.wait_for("already counts as yours").end().rc == 2
    sitting.close()
