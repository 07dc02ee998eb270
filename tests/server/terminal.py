"""A terminal of its own: `terminal.py` runs one command line of `coilclaw` for every line of JSON it reads."""

import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

ROOT = Path(__file__).resolve().parents[2]


def run():
    from coilclaw.cli.group import coilclaw

    for line in sys.stdin:
        coilclaw.main(json.loads(line), standalone_mode=False)
    sys.stdout.write("done\n")


@contextmanager
def terminal(sample, *commands):
    """Another process on this home that runs these commands, one after the other."""
    environ = {**os.environ, "COILCLAW_HOME": str(sample.home.root), "HOME": str(sample.folder / "user")}
    command = [sys.executable, "-m", "tests.server.terminal"]
    with Popen(command, cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True, env=environ) as process:
        try:
            process.stdin.write("".join(json.dumps(each) + "\n" for each in commands))
            process.stdin.close()
            yield process
        finally:
            process.kill()
            process.wait()


if __name__ == "__main__":
    run()
