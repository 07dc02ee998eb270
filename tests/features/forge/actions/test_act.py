"""The shipped workflows, executed by act: somebody else's reading of them, against the fake of GitHub.

It enforces no permissions and knows no account's number; `test_workflows.py` and the matrix are for that.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from coilclaw.features.forge.actions.workflow_rows import ACTIONS
from tests.features.forge.actions.runner import SHIM
from tests.features.forge.actions.test_workflows import DONE, PLAN, WRITE
from tests.features.projects.world import git
from tests.missing import lacks

pytestmark = pytest.mark.slow
BIN = Path(sys.executable).parent
ARTIFACT = """\
name: artifact
description: Stands in for an action that carries artifacts.
inputs:
  name: {{required: true}}
  path: {{required: true}}
  if-no-files-found: {{required: false}}
  retention-days: {{required: false}}
runs:
  using: composite
  steps:
    - shell: bash
      env:
        NAME: ${{{{ inputs.name }}}}
        PLACE: ${{{{ inputs.path }}}}
      run: {command}
"""
CARRIES = {
    "upload": 'mkdir -p "$SHARED" && cp -r "$PLACE" "$SHARED/$NAME"',
    "download": 'cp -r "$SHARED/$NAME" "$PLACE"',
}
PULL = {"pull_request": {"head": {"repo": {"full_name": "owner/bot"}, "ref": "x"}, "base": {"ref": "main"}}}


class Act:
    """Runs one workflow of a repository after the other."""

    def __init__(self, bot):
        if not (BIN / "act").exists():
            lacks("act", "Run: scripts/test, which installs requirements-dev.lock.")
        self.bot, self.folder = bot, bot.folder / "act"
        shim = self.folder / "shims" / "python3"
        shim.parent.mkdir(parents=True)
        shim.write_text(SHIM.format(coilclaw=BIN / "coilclaw"))
        shim.chmod(0o755)
        for name, command in CARRIES.items():
            (self.folder / name).mkdir()
            (self.folder / name / "action.yml").write_text(ARTIFACT.format(command=command))
        git(bot.seed, "remote", "add", "origin", "https://github.com/owner/bot.git")

    def run(self, name, event, payload, **permissions):
        """Its exit code and what it said."""
        token = self.bot.fake.run_token(permissions)
        key = self.bot.runner.secrets["COILCLAW_APP_KEY"].replace("\n", "\\n")
        secrets = {**self.bot.runner.secrets, "COILCLAW_APP_KEY": f'"{key}"', "GITHUB_TOKEN": token}
        (self.folder / "secrets").write_text("".join(f"{name}={value}\n" for name, value in secrets.items()))
        (self.folder / "event.json").write_text(json.dumps(payload))
        environ = {
            **self.bot.runner.environ, "GITHUB_API_URL": self.bot.fake.base_url, "SHARED": self.folder / "artifacts",
            "GITHUB_SHA": self.bot.fake.hosted.ref("heads/main"),
        }  # fmt: skip
        local = {action: self.folder / kind for action in ACTIONS for kind in CARRIES if f"/{kind}-artifact@" in action}
        options = [
            "-W", f".github/workflows/{name}", "-P", "ubuntu-24.04=-self-hosted", "-e", self.folder / "event.json",
            "--secret-file", self.folder / "secrets",
        ]  # fmt: skip
        for option, values in (
            ("--env", environ), ("--var", self.bot.fake.variables), ("--local-repository", local)
        ):  # fmt: skip
            options += [part for each in values.items() for part in (option, "{}={}".format(*each))]
        home = self.folder / "home"
        outer = {
            "PATH": f"{self.folder / 'shims'}:{os.environ['PATH']}", "HOME": home, "XDG_CACHE_HOME": home / "cache",
            "DOCKER_HOST": "",
        }  # fmt: skip
        done = subprocess.run(
            [BIN / "act", event, *options], cwd=self.bot.seed, env=outer, capture_output=True, text=True
        )
        return done.returncode, done.stdout + done.stderr


def test_act_takes_words_to_a_pull_request(bot):
    bot.script(PLAN, WRITE, DONE)
    act = Act(bot)
    words = {"words": "Write a note.", "channel": "test", "key": "k1"}
    code, said = act.run("intake.yml", "workflow_dispatch", {"inputs": words}, actions="write", contents="write")
    assert code == 0, said
    ((_, started),) = bot.fake.dispatched
    code, said = act.run("execute.yml", "workflow_dispatch", {"inputs": started["inputs"]}, contents="read")
    assert code == 0, said
    (pull,) = bot.fake.pulls.values()
    assert bot.file(bot.fake.head_of(pull), "notes/a.md") == b"from afar\n"
    assert not [each for each in bot.runner.secrets.values() if each in said]


def test_act_tests_deploys_and_dispatches_what_is_on_main_until_the_stop(bot):
    act = Act(bot)
    runs = (
        ("tests.yml", "pull_request", PULL, {"contents": "read"}),
        ("deploy.yml", "push", {"ref": "refs/heads/main"}, {"contents": "read", "deployments": "write"}),
        ("dispatcher.yml", "schedule", {}, {"actions": "write", "contents": "write"}),
    )
    for name, event, payload, permissions in runs:
        code, said = act.run(name, event, payload, **permissions)
        assert code == 0, said
    assert bot.fake.statuses() == ["in_progress", "success"]
    assert bot.fake.hosted.ref("coilclaw/dispatcher")
    asked = len(bot.fake.requests)
    bot.fake.variables["COILCLAW_STOP"] = "1"
    for name, event, payload, permissions in runs:
        assert act.run(name, event, payload, **permissions)[0] != 0
    assert len(bot.fake.requests) == asked
