"""`coilclaw session` as people use it: the real executable at a terminal, without a server."""

import asyncio
import json

import pytest

from coilclaw.sandbox.keepers import Keepers
from tests.acceptance.conftest import HomeAt, one_sentence, until
from tests.cli.commands.test_service import Place
from tests.features.runner.repo_world import git

pytestmark = pytest.mark.slow


@pytest.fixture
def site(home: HomeAt):
    folder = home.workspace.parent / "site"
    (folder / "src").mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "src" / "a.py").write_text("a = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    yield folder
    for each in home.run("session", "list", "--json").json():
        home.run("session", "stop", each["session_id"])


def added(home: HomeAt, folder) -> None:
    home.configure(f'[repos.site]\npath = "{folder}"\n')


def listed(home: HomeAt, *options: str):
    return home.run("session", "list", "--json", *options).json()


def test_a_folder_that_was_not_added_is_offered_in_place(home: HomeAt, site) -> None:
    in_a_pipe = home.run("session", "start", str(site / "src"))
    one_sentence(in_a_pipe, 2, "not one of your repositories yet", f"coilclaw repo add {site}")
    no = home.sit("session", "start", str(site)).wait_for("Add it?").type("\n").end()
    assert no.rc == 2
    assert "repo add" in no.out.replace("\r\n", " ")
    assert not listed(home)
    sitting = home.sit("session", "start", str(site / "src")).wait_for("Add it?").type("y\n")
    sitting.wait_for("[?]").type("y\n")  # the card of the change itself
    sitting.wait_for("src $").type("cat a.py\n").wait_for("a = 1").type("\x02d")
    assert "joins it again" in sitting.end().out.replace("\r\n", " ")
    assert [(each["state"], each["room_path"]) for each in listed(home)] == [("RUNNING", "src")]
    one_sentence(home.run("session", "start", "nothing-of-this-name", "-d"), 1, "nothing-of-this-name")
    one_sentence(home.run("session", "start", str(site), "-d", "--task", "Mend it"), 2, "--provider codex")


def test_the_usual_way_through_a_session(home: HomeAt, site) -> None:
    added(home, site)
    home.ok("session", "start", "site", "--title", "Look", "-d")
    home.ok("session", "send", "last", "echo 'b = 2' >> src/a.py; git commit -qam two; echo se''nt")
    until(lambda: "+b = 2" in home.ok("session", "diff", "last").out, "the change")
    assert "src/a.py" in home.ok("session", "diff", "last", "--stat").out
    assert "only while `coilclaw up`" in home.ok("session", "logs", "last").err
    sitting = home.sit("session", "attach", "last").wait_for("sent")
    other = home.sit("session", "attach", "last").wait_for("sent")
    other.type("echo bo''th\n").wait_for("both")
    sitting.wait_for("both").type("\x02d")
    assert sitting.end().rc == 0
    assert "Paused" in home.ok("session", "pause", "last").out
    assert listed(home)[0]["state"] == "PAUSED_BY_HUMAN"
    shown = home.sit("session", "list").end().out
    assert [word in shown for word in ("program", "shell", "PAUSED_BY_HUMAN", "coil/")] == [True, True, True, False]
    joined = home.sit("session", "attach", "last").wait_for("Let them go on?").type("\n").wait_for("both")
    assert joined.type("echo a''gain\n").wait_for("again").type("\x02d").end().rc == 0
    assert listed(home)[0]["state"] == "RUNNING"
    assert "Stopped" in home.ok("session", "stop", "last").out
    other.end()
    logs = home.ok("session", "logs", "last")
    assert "sent" in logs.out
    assert not logs.err
    one_sentence(home.run("session", "send", "last", "x"), 1, "not running")
    assert "self" in home.ok("usage", "--sessions").out
    assert "Removed" in home.ok("session", "rm", "last").out
    assert not listed(home)
    exported = home.ok("session", "audit").out
    file = site / "audit.jsonl"
    file.write_text(exported)
    assert json.loads(exported.splitlines()[0])["org_id"] == "self"
    assert "agrees with the ledger" in home.ok("session", "audit", "--check", str(file)).out
    file.write_text(exported.replace('"tool":"session_start"', '"tool":"session_stars"'))
    differs = home.run("session", "audit", "--check", str(file))
    assert differs.rc == 6
    assert "is not what the ledger holds" in differs.out
    one_sentence(home.run("session", "audit", "nobody"), 2, "no organization")


def test_one_that_waits_for_its_owner_is_listed_and_says_what_for(home: HomeAt, site) -> None:
    home.configure(f'[security]\nallowed_domains = ["example.com"]\n[repos.site]\npath = "{site}"\n')
    assert home.run("session", "start", "site", "--network", "-d").rc == 4
    (waits,) = listed(home)
    (question,) = waits["waiting"]
    one_sentence(home.run("session", "watch", "last"), 2, f"approvals approve {question}")
    home.ok("session", "stop", "last")
    assert home.ok("approvals", "list", "--json").json() == []


def test_one_that_ended_while_nothing_followed_it_can_be_stopped(home: HomeAt, site) -> None:
    added(home, site)
    home.ok("session", "start", "site", "-d")
    home.ok("session", "send", "last", "exit 3")
    until(lambda: home.run("session", "pause", "last").rc != 0, "its end")
    home.ok("session", "stop", "last")
    assert [each["exit_code"] for each in listed(home)] == [3]


def test_stopping_the_service_ends_sessions_only_where_that_is_asked(home: HomeAt, site, tmp_path) -> None:
    added(home, site)
    (tmp_path / "service").mkdir()
    place = Place(tmp_path / "service")  # a systemctl that only writes down what it is asked
    place.home = home.root
    home.ok("session", "start", "site", "-d")
    assert place.run("install").returncode == 0
    stopped = place.run("stop")
    assert (stopped.returncode, stopped.stdout) == (0, "Stopped.\n")
    home.ok("session", "send", "last", "touch alive")
    until(lambda: "alive" in home.ok("session", "diff", "last", "--stat").out, "the session goes on")
    stopped = place.run("stop", "--sessions")
    assert "1 coding session ended." in stopped.stdout, stopped
    assert home.run("session", "send", "last", "touch more").rc == 1
    asyncio.run(Keepers(home.root / "run").end_all())  # it stays for the next server, which records how it ended


def test_a_session_is_found_from_its_job(home: HomeAt, site) -> None:
    added(home, site)
    home.run("agent", "-m", "hello")
    (thread_id, *_) = [row["thread_id"] for row in home.ok("memory", "list", "--json").json()]
    job_id = home.ok("job", "create", "Look around", "--json").json()["job_id"]
    home.ok("session", "start", "site", "-d", "--job", job_id, "--conversation", thread_id)
    (found,) = listed(home, "--job", job_id)
    assert [each["session_id"] for each in listed(home, "--conversation", thread_id)] == [found["session_id"]]
    assert (found["job_id"], found["thread_id"]) == (job_id, thread_id)
    assert listed(home, "--job", "job_other") == []
    assert found["session_id"] in home.ok("job", "show", job_id).out
    assert found["session_id"] in home.ok("memory", "show", thread_id).out
    one_sentence(home.run("session", "start", "site", "-d", "--job", "job_none"), 2, "no job")
    one_sentence(home.run("session", "start", "site", "-d", "--conversation", "thr_none"), 2, "no conversation")
