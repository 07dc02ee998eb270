"""The service: a unit that systemd reads as we mean it, and commands that reach a systemctl of the test's own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from coilclaw.cli.commands.service import must_be_linux
from coilclaw.cli.systemd_unit import EVOLVE, MARK, NAME, unit_file, unit_text
from coilclaw.packets.errors import UsageError
from tests.missing import lacks

COILCLAW = Path(sys.executable).with_name("coilclaw")

SYSTEMCTL = """#!/bin/sh
# Keeps what it was asked, and answers as the file "answers" beside it says.
here=$(dirname "$0")
echo "$(basename "$0") $*" >> "$here/asked"
env > "$here/environment"
[ -e "$here/no-session" ] && { echo "Failed to connect to bus: No medium found" >&2; exit 1; }
[ -e "$here/broken" ] && [ "$2" = start ] && { echo "Job for coilclaw.service failed." >&2; exit 1; }
[ "$2" = show ] && cat "$here/shown" 2>/dev/null
[ "$(basename "$0")" = journalctl ] && echo "a line of the log"
exit 0
"""


class Place:
    """A home, a user and a PATH with a systemctl and a journalctl that only write down what they are asked."""

    def __init__(self, folder):
        self.folder = folder
        self.bin = folder / "bin"
        self.home = folder / "the home"
        self.unit = folder / "user" / ".config" / "systemd" / "user" / "coilclaw.service"
        self.bin.mkdir()
        self.home.mkdir(mode=0o700)
        (folder / "user").mkdir()
        for name in ("systemctl", "journalctl"):
            (self.bin / name).write_text(SYSTEMCTL)
            (self.bin / name).chmod(0o755)

    def run(self, *args, **env):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("COILCLAW_", "XDG_"))}
        return subprocess.run(
            [COILCLAW, "service", *args],
            env={
                **clean,
                "PATH": f"{self.bin}:{os.environ['PATH']}",
                "HOME": str(self.folder / "user"),
                "COILCLAW_HOME": str(self.home),
                **env,
            },
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=280,
        )

    def asked(self):
        file = self.bin / "asked"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_install_writes_the_unit_says_so_and_enables_it(place):
    done = place.run("install")
    assert done.returncode == 0, done.stderr
    assert f"Wrote {place.unit}" in done.stdout
    text = place.unit.read_text()
    assert f"ExecStart={COILCLAW} up\n" in text
    assert f'Environment="COILCLAW_HOME={place.home}"\n' in text
    assert f"EnvironmentFile=-{place.home}/environment\n" in text
    assert "Restart=on-failure\n" in text
    assert "KillMode=process\n" in text  # sessions go on while the server is restarted
    assert place.asked()[1:] == ["systemctl --user daemon-reload", "systemctl --user enable coilclaw.service"]


def test_the_agent_that_works_on_itself_has_a_unit_of_its_own(place):
    refused = place.run("--evolve", "install")
    assert refused.returncode == 2
    assert "coilclaw evolve init" in refused.stderr
    (place.home / "evolve" / "bot.git").mkdir(parents=True)
    assert place.run("install").returncode == 0
    done = place.run("--evolve", "install")
    assert done.returncode == 0, done.stderr
    assert "coilclaw service --evolve start" in done.stdout
    own = place.unit.with_name("coilclaw-evolve.service")
    assert f"ExecStart={COILCLAW} evolve up\n" in own.read_text()
    assert f"ExecStart={COILCLAW} up\n" in place.unit.read_text()
    assert place.asked()[-1] == "systemctl --user enable coilclaw-evolve.service"
    assert place.run("--evolve", "start").returncode == 0
    assert place.asked()[-1] == "systemctl --user start coilclaw-evolve.service"
    assert place.run("--evolve", "uninstall").returncode == 0
    assert place.unit.exists()
    assert not own.exists()


def test_installing_again_changes_nothing(place):
    place.run("install")
    before = place.unit.read_text()
    assert place.run("install").returncode == 0
    assert place.unit.read_text() == before
    assert [each.name for each in place.unit.parent.iterdir()] == ["coilclaw.service"]


def test_print_shows_the_unit_and_touches_nothing(place):
    done = place.run("install", "--print")
    assert done.stdout.startswith(MARK)
    assert not place.unit.exists()
    assert place.asked() == []


def test_no_secret_of_the_shell_gets_into_the_unit_or_to_the_programs_of_the_system(place):
    place.run("install", OPENAI_API_KEY="sk-secret-of-the-shell", COILCLAW_ENCRYPTION_KEY_B64="c2VjcmV0")
    assert "secret-of-the-shell" not in place.unit.read_text()
    given = (place.bin / "environment").read_text()
    assert "secret-of-the-shell" not in given
    assert "c2VjcmV0" not in given


def test_a_unit_of_somebody_else_is_left_alone(place):
    place.unit.parent.mkdir(parents=True)
    place.unit.write_text("[Service]\nExecStart=/bin/true\n")
    for command in ("install", "uninstall"):
        done = place.run(command)
        assert done.returncode == 2
        assert "was not written by" in done.stderr
    assert place.unit.read_text() == "[Service]\nExecStart=/bin/true\n"


def test_keys_that_others_may_read_are_refused(place):
    environment = place.home / "environment"
    environment.write_text("OPENAI_API_KEY=x\n")
    environment.chmod(0o644)
    done = place.run("install")
    assert done.returncode == 2
    assert "chmod 600" in done.stderr
    assert not place.unit.exists()
    environment.chmod(0o600)
    assert place.run("install").returncode == 0


def test_without_a_home_there_is_nothing_to_serve(place):
    place.home.rmdir()
    done = place.run("install")
    assert done.returncode == 2
    assert "coilclaw init" in done.stderr


def test_start_stop_and_logs_reach_the_service(place):
    place.run("install")
    (place.bin / "asked").unlink()
    assert place.run("start").returncode == 0
    assert place.run("stop").returncode == 0
    told = place.run("logs", "-n", "5")
    assert told.stdout == "a line of the log\n"
    asked = [line for line in place.asked() if "--property=Version" not in line]
    assert asked == [
        "systemctl --user start coilclaw.service",
        "systemctl --user stop coilclaw.service",
        "journalctl --user --unit=coilclaw.service --lines=5 --no-pager",
    ]


def test_a_start_that_fails_says_what_systemd_said(place):
    place.run("install")
    (place.bin / "broken").touch()
    done = place.run("start")
    assert done.returncode == 1
    assert "Job for coilclaw.service failed." in done.stderr
    assert "coilclaw service logs" in done.stderr


def test_status_tells_whether_it_runs(place):
    assert place.run("status").returncode == 1
    place.run("install")
    (place.bin / "shown").write_text(
        "ActiveState=active\nSubState=running\nMainPID=4711\nNRestarts=2\nUnitFileState=enabled\n"
        "ActiveEnterTimestamp=Mon 2026-11-16 01:00:00 UTC\n"
    )
    done = place.run("status")
    assert done.returncode == 0
    assert done.stdout == "Running since Mon 2026-11-16 01:00:00 UTC, process 4711, restarted 2 times.\n"
    assert json.loads(place.run("status", "--json").stdout) == {
        "installed": True, "running": True, "state": "active", "enabled": True, "pid": 4711, "restarts": 2,
    }  # fmt: skip
    (place.bin / "shown").write_text("ActiveState=failed\nSubState=failed\nMainPID=0\n")
    done = place.run("status")
    assert (done.returncode, done.stdout) == (1, "Not running (failed, failed).\n")


@pytest.mark.parametrize("command", ["start", "stop", "status"])
def test_without_a_session_of_systemd_it_says_what_to_do_instead(place, command):
    place.run("install")
    (place.bin / "no-session").touch()
    done = place.run(command)
    assert done.returncode == 1
    assert "No medium found" in done.stderr
    assert "tmux" in done.stderr
    assert "enable-linger" in done.stderr


def test_installing_without_a_session_writes_the_unit_and_says_what_is_missing(place):
    (place.bin / "no-session").touch()
    done = place.run("install")
    assert done.returncode == 0
    assert place.unit.exists()
    assert "The service is not enabled" in done.stderr


def test_without_systemd_it_says_so(place):
    place.run("install")
    (place.bin / "systemctl").unlink()
    done = place.run("start", PATH=str(place.bin))
    assert done.returncode == 1
    assert "systemctl cannot be run" in done.stderr
    assert "coilclaw up" in done.stderr


def test_uninstall_stops_it_and_leaves_the_home(place):
    place.run("install")
    done = place.run("uninstall")
    assert done.returncode == 0
    assert not place.unit.exists()
    assert place.home.is_dir()
    assert "systemctl --user disable --now coilclaw.service" in place.asked()
    assert place.run("uninstall").stdout == "Not installed.\n"


def test_what_is_not_installed_cannot_be_started(place):
    done = place.run("start")
    assert done.returncode == 2
    assert "coilclaw service install" in done.stderr


def test_the_unit_stands_where_systemd_looks():
    assert unit_file({"HOME": "/h"}) == Path("/h/.config/systemd/user/coilclaw.service")
    assert unit_file({"HOME": "/h", "XDG_CONFIG_HOME": "/c"}) == Path("/c/systemd/user/coilclaw.service")
    assert unit_file({"HOME": "/h", "XDG_CONFIG_HOME": "c"}) == Path("/h/.config/systemd/user/coilclaw.service")


@pytest.mark.parametrize("path", ["relative", "/a\nExecStart=/bin/sh", '/a"b', "/a*", "/a\\b", "/a ", "/a'b", "/a\x07"])
def test_a_path_that_systemd_would_misread_is_refused(path):
    with pytest.raises(UsageError):
        unit_text(Path("/usr/bin/coilclaw"), Path(path))
    with pytest.raises(UsageError):
        unit_text(Path(path), Path("/home/me/.coilclaw"))


def test_the_unit_has_nothing_that_keeps_boxes_from_being_made():
    set_here = [
        line.partition("=")[0]
        for line in unit_text(Path("/c"), Path("/h")).splitlines()
        if "=" in line and not line.startswith("#")
    ]
    assert not [name for name in set_here if name.startswith(("Restrict", "Protect", "Private", "SystemCall", "NoNew"))]


@pytest.mark.slow
@pytest.mark.parametrize("unit", [NAME, EVOLVE])
@pytest.mark.parametrize("name", ["home", "my home", "100%", "$HOME", "größe"])
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path, name, unit):
    if shutil.which("systemd-analyze") is None:
        lacks("systemd", "Install the package systemd.")
    home, runtime = tmp_path / name, tmp_path / "runtime"
    home.mkdir()
    runtime.mkdir(mode=0o700)
    file = tmp_path / unit
    file.write_text(unit_text(COILCLAW, home, unit))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(file)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert "coilclaw.service" not in done.stderr


def test_elsewhere_than_on_linux_it_is_refused_with_another_way():
    must_be_linux("linux")
    with pytest.raises(UsageError, match="Linux only") as refused:
        must_be_linux("darwin")
    assert "coilclaw up" in refused.value.remedy
