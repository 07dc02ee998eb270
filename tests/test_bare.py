"""`scripts/bare` makes a bare machine, or says what it needs; a run of it is too long for a test."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.missing import lacks

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "bare"


def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, *arguments], env={**os.environ, **environ}, capture_output=True, text=True, check=False, timeout=280
    )


def test_an_option_it_does_not_know_is_refused() -> None:
    done = run("--roots")
    assert done.returncode == 1
    assert done.stderr == "scripts/bare knows --root and --again, then a command.\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may make one")
def test_an_ordinary_user_is_told_to_become_root() -> None:
    done = run("true")
    assert done.returncode == 1
    assert "run this as root" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="whoever is not root is refused before")
def test_without_debootstrap_it_says_what_to_install_and_leaves_nothing(tmp_path: Path) -> None:
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True, check=False).returncode:
        lacks("mount namespaces", "Run the tests on the host, or in a privileged container.")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "dirname", "id", "unshare", "true"):
        (programs / name).symlink_to(shutil.which(name) or name)
    done = run("true", PATH=str(programs), BARE_ROOT=str(tmp_path / "bare"))
    assert done.returncode == 1
    assert done.stderr == "debootstrap is needed: install the package debootstrap.\n"
    assert not (tmp_path / "bare").exists()
