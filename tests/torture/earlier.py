"""Homes made by earlier commits with their own code, opened by the code of today."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMITS = (
    "716b4d3", "7398213", "3063605", "355b77d", "73b3c41", "18d036e", "0143059", "93ca665", "2240d98", "4ed4f40",
    "4975c74", "b914089", "39fe344", "2e6af63", "fd46617", "c7db004", "558fdde",
)  # fmt: skip
"""Each shape of the schema up to migration 0006, some of the later ones (0009, 0015, 0017, 0020, 0022), and commits
between them. Not every commit can make a home and talk in it."""
RUN = "import sys; from coilclaw.cli import main; sys.exit(main())"


def known_commits() -> list[str]:
    """Those that are there: a shallow clone has none."""
    return [commit for commit in COMMITS if _git("cat-file", "-e", f"{commit}^{{commit}}").returncode == 0]


def try_home(commit: str, folder: Path) -> list[str]:
    """Make a home with the code of that commit, talk in it, and go on with ours; what is wrong."""
    old = folder / commit / "code"
    old.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x"], cwd=old, input=archive.stdout, check=True)
    home = folder / commit / "home"
    wrong: list[str] = []
    for source, command in (
        (old / "src", ("init",)),
        (old / "src", ("agent", "-m", "what time is it")),
        (ROOT / "src", ("agent", "-m", "what time is it")),
        (ROOT / "src", ("receipt", "verify")),
        (ROOT / "src", ("devices", "list")),
        (ROOT / "src", ("approvals", "list")),
        (ROOT / "src", ("doctor", "--short")),
    ):
        if source == ROOT / "src":
            _mark(home)
        done = _run(source, home, command)
        if done.returncode:
            wrong.append(f"{commit}: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
            if source != ROOT / "src":
                break
    if not wrong:
        shutil.rmtree(folder / commit)
    return wrong


def _mark(home: Path) -> None:
    """Earlier than the signed mark, a home has none; the owner is told to make it from the last head, and does."""
    mark, heads = home / "keys" / "ledger.mark", home / "tool_receipts.log.heads"
    if not mark.exists() and heads.exists():
        mark.write_text(heads.read_text().splitlines()[-1] + "\n")
        mark.chmod(0o600)


def _run(source: Path, home: Path, command: tuple[str, ...]) -> "subprocess.CompletedProcess[str]":
    environ = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": str(home.parent),
        "LANG": "C.UTF-8",
        "COILCLAW_HOME": str(home),
        "PYTHONPATH": str(source),
    }
    call = [sys.executable, "-c", RUN, *command]
    return subprocess.run(call, env=environ, cwd=home.parent, capture_output=True, text=True, timeout=180, check=False)


def _git(*command: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, check=False)
