"""The wheel: in an environment of its own, away from the checkout and without Node, it is the whole program."""

import os
import re
import subprocess
import sys
import urllib.request
import venv
from pathlib import Path

import pytest

from tests.acceptance.conftest import PATIENCE
from tests.missing import lacks
from tests.panel.house import build_panel

ROOT = Path(__file__).resolve().parent.parent
UV = Path(sys.executable).with_name("uv")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `scripts/wheel` makes."""
    build_panel()
    made = tmp_path_factory.mktemp("dist")
    ran = subprocess.run([ROOT / "scripts" / "wheel", made], capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stderr[-2000:]
    file = Path(ran.stdout.strip())
    assert list(made.iterdir()) == [file]
    assert re.fullmatch(r"coilclaw-[\d.]+-py3-none-any\.whl", file.name)
    return file


class Installed:
    """A clean environment and a person's folder, neither of which knows the checkout."""

    def __init__(self, folder: Path) -> None:
        self.python = folder / "env" / "bin" / "python"
        self.coilclaw = folder / "env" / "bin" / "coilclaw"
        self.user = folder / "user"
        self.user.mkdir()
        tools = folder / "tools"  # git and a shell, and no Node
        tools.mkdir()
        for name in ("git", "sh", "bwrap", "env"):
            if found := next((Path(at, name) for at in os.get_exec_path() if os.access(Path(at, name), os.X_OK)), None):
                (tools / name).symlink_to(found)
        self.environ = {"PATH": f"{folder}/env/bin:{tools}", "HOME": str(self.user), "LANG": "C.UTF-8"}

    def run(self, *words: str) -> str:
        """What a command prints; it has to succeed."""
        ran = subprocess.run(
            [self.coilclaw, *words], env=self.environ, cwd=self.user, capture_output=True, text=True, timeout=280,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert ran.returncode == 0, (words, ran.stdout[-1000:], ran.stderr[-2000:])
        return ran.stdout


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The locked packages, then the wheel with nothing fetched any more: what it asks for has to be among them."""
    if not UV.exists():
        lacks("uv", "Run scripts/test, which installs it.")
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder / "env", symlinks=True)
    there = Installed(folder)
    install = [UV, "pip", "install", "--quiet", "--python", there.python, "--only-binary", ":all:"]
    environ = {**os.environ, "UV_SYSTEM_CERTS": os.environ.get("UV_SYSTEM_CERTS", "1")}
    locked = [*install, "--require-hashes", "-r", ROOT / "requirements.lock"]
    fetched = subprocess.run(locked, env=environ, capture_output=True, text=True, timeout=280)
    if fetched.returncode:
        lacks("a package index", f"The locked packages could not be fetched: {fetched.stderr.strip()[-300:]}")
    ran = subprocess.run([*install, "--offline", wheel], env=environ, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return there


def test_the_wheel_runs_from_itself_alone(installed: Installed) -> None:
    where = [installed.python, "-c", "import coilclaw; print(coilclaw.__file__)"]
    found = subprocess.run(where, env=installed.environ, cwd=installed.user, capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()).is_relative_to(installed.python.parent.parent)
    assert str(ROOT) not in found.stdout
    assert re.fullmatch(r"coilclaw \d+\.\d+\.\d+\n", installed.run("--version"))


def test_the_manual_is_in_the_wheel(installed: Installed) -> None:
    assert re.search(r"^policy\tPolicy$", installed.run("docs"), re.MULTILINE)
    assert installed.run("docs", "docs/policy.md") == (ROOT / "docs" / "policy.md").read_text()
    assert installed.run("docs", "SECURITY.md") == (ROOT / "SECURITY.md").read_text()


def test_a_home_is_made_and_a_turn_runs_from_the_wheel(installed: Installed) -> None:
    installed.run("init")
    assert (installed.user / "coilclaw-workspace" / "SYSTEM.md").is_file()
    assert "SYSTEM.md" in installed.run("agent", "-m", "list files")
    assert "1 receipt" in installed.run("receipt", "verify")


def test_the_panel_is_served_from_the_wheel(installed: Installed) -> None:
    installed.run("init")
    command = [installed.coilclaw, "up", "--addr", "127.0.0.1:0"]
    with subprocess.Popen(
        command, env=installed.environ, cwd=installed.user, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL
    ) as serving:
        try:
            assert serving.stdout is not None
            said = next(line for line in serving.stdout if "CoilClaw is up" in line)
            address = said.split()[-1]
            direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            page = direct.open(address, timeout=PATIENCE).read().decode()
            scripts = re.findall(r'(?:src|href)="/?(assets/[^"]+\.js)"', page)
            assert scripts
            assert direct.open(f"{address}{scripts[0]}", timeout=PATIENCE).status == 200
            assert direct.open(f"{address}health", timeout=PATIENCE).status == 200
        finally:
            serving.terminate()
            serving.wait(PATIENCE)
    assert serving.returncode == 0
