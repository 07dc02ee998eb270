"""What is forked behaves as what is started afresh."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests import forked
from tests.forked import COILCLAW

pytestmark = pytest.mark.slow


@pytest.fixture
def place(tmp_path: Path) -> dict[str, object]:
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "COILCLAW_HOME": str(tmp_path / "h"),
    }
    return {"env": environ, "cwd": tmp_path}


@pytest.mark.parametrize(
    "words",
    [["--version"], ["no-such-command"], ["receipt", "list"], ["config", "show"], [b"agent", b"-m", b"\xff\xfe"], []],
    ids=lambda words: " ".join(map(str, words)) or "nothing",
)
def test_it_says_and_ends_as_a_fresh_one_does(place, words, monkeypatch):
    ours = forked.run([COILCLAW, *words], timeout=120, **place)
    monkeypatch.setenv("TESTS_FORK", "no")
    fresh = forked.run([COILCLAW, *words], timeout=120, **place)
    assert (ours.returncode, ours.stdout, ours.stderr) == (fresh.returncode, fresh.stdout, fresh.stderr)


@pytest.mark.parametrize(
    "text", ["import sys; print(sys.argv, __name__); sys.exit(3)", "raise ValueError('x')", "print('é')"]
)
def test_a_script_says_and_ends_as_a_fresh_one_does(place, text, monkeypatch):
    def ran() -> tuple[int, bytes, list[bytes]]:
        done = forked.run([*forked.SCRIPT, text, "one", "two"], timeout=120, **place)
        return done.returncode, done.stdout, done.stderr.splitlines()[-1:]

    ours = ran()
    monkeypatch.setenv("TESTS_FORK", "no")
    assert ours == ran()


def test_what_is_given_is_read_and_what_is_written_has_the_same_bytes(place):
    given = "a\r\nkey sk-proj-aB3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gH3jK5 é\n".encode() + b"\xff"
    done = forked.run([COILCLAW, "redact"], data=given, timeout=120, **place)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"a\r\nkey ")
    assert b"sk-proj" not in done.stdout


def test_nobody_reads_any_more_and_it_ends_as_a_fresh_one_does(place, monkeypatch):
    def ended() -> tuple[bytes, int]:
        reads, writes = os.pipe()
        os.close(reads)
        process = forked.start([COILCLAW, "--help"], stdout=writes, stderr=subprocess.PIPE, **place)
        os.close(writes)
        return process.communicate(timeout=120)[1], process.returncode

    ours = ended()
    monkeypatch.setenv("TESTS_FORK", "no")
    assert ours == ended()


def test_a_killed_one_stays_a_zombie_until_somebody_waits(place):
    process = forked.start([COILCLAW, "redact"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **place)
    os.kill(process.pid, signal.SIGKILL)
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        pass
    assert process.wait(120) == -signal.SIGKILL
    process.communicate()


def test_a_new_session_is_its_own_and_a_variable_of_the_interpreter_gets_a_fresh_one(place):
    process = forked.start([COILCLAW, "redact"], stdin=subprocess.PIPE, start_new_session=True, **place)
    assert os.getsid(process.pid) == process.pid
    process.communicate(timeout=120)
    place["env"]["PYTHONUTF8"] = "1"
    with forked.start([COILCLAW, "--version"], stdout=subprocess.DEVNULL, **place) as fresh:
        assert type(fresh) is subprocess.Popen
