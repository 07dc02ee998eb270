"""A bot on this machine alone pays nothing for GitHub."""

import subprocess
import sys

import pytest

TOLD = """
import sys
from coilclaw.cli import main
sys.argv = ["coilclaw", *sys.argv[1:]]
try:
    main()
finally:
    found = [name for name in sys.modules if name.startswith("coilclaw.features.forge.github")]
    print("imported", sorted(found))
"""


@pytest.mark.parametrize("command", [("bot", "status"), ("tool", "list"), ("worker", "--once"), ("pr", "list")])
def test_nothing_of_github_is_imported(tmp_path, command):
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "COILCLAW_HOME": str(tmp_path / "home")}
    program = [sys.executable, "-c", TOLD]
    subprocess.run([*program, "init", "--quiet"], env=environ, check=True, capture_output=True)
    done = subprocess.run([*program, *command], env=environ, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "imported []", done.stdout[-2000:] + done.stderr[-2000:]
