"""A small runner: executes the steps of a workflow as GitHub documents it, against the fake. No job sees another's
variables, files or secrets; only artifacts and outputs pass."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from coilclaw.features.forge.actions.workflow_yaml import read_yaml

SHIM = """#!/bin/sh
# Stands in for python3 -m venv: the program under test is installed already.
mkdir -p "$3/bin" && ln -sf {coilclaw} "$3/bin/coilclaw" && printf '#!/bin/sh\\n' >"$3/bin/pip" && chmod +x "$3/bin/pip"
"""


class JobRun:
    """How a job ended: `skipped`, `success` or `failure`, its outputs, and what it wrote."""

    def __init__(self):
        self.result, self.outputs, self.log = "skipped", {}, ""


class WorkflowRunner:
    """Runs workflows of one repository."""

    def __init__(self, fake, folder, *, variables=None, secrets=None, environ=None):
        self.fake, self.folder = fake, folder
        self.variables, self.secrets = variables if variables is not None else {}, secrets or {}
        self.environ = environ or {}
        self.number = 0
        self.tamper = {}
        """What happens to an artifact on its way, by its name."""

    def run(self, text, *, inputs=None, actor_id="1001", sha=None, run_id=None):
        """Execute a workflow; its jobs by name."""
        self.number += 1
        place = self.folder / f"run{self.number}"
        workflow = read_yaml(text.encode())
        done, github = {}, {
            "sha": sha or self.fake.hosted.ref("heads/main"), "actor_id": actor_id, "repository": self.fake.name,
            "run_id": run_id or str(self.number),
        }  # fmt: skip
        for name, job in workflow["jobs"].items():
            done[name] = self._job(place / name, name, job, done, inputs or {}, github)
        return done

    def _job(self, place, name, job, before, inputs, github):
        run = JobRun()
        needs = job.get("needs", [])
        ends = [before[each].result for each in ([needs] if isinstance(needs, str) else needs)]
        condition = job.get("if", "")
        if condition == "failure()":
            if "failure" not in ends:
                return run
        elif any(end != "success" for end in ends):
            return run
        if "actor_id" in condition and github["actor_id"] not in (
            re.search(r"'(\d+)'", condition)[1], self.variables.get("COILCLAW_BOT_ID", "none"),
        ):  # fmt: skip
            return run
        temp, work = place / "temp", place / "work" / "bot"
        temp.mkdir(parents=True), work.mkdir(parents=True)
        token = self.fake.run_token(job["permissions"])
        steps = {}
        run.result = "success"
        for step in job["steps"]:

            def value(text, steps=steps):
                return re.sub(r"\$\{\{ (\S+) \}\}", lambda found: self._of(found[1], {
                    "inputs": inputs, "vars": self.variables, "secrets": self.secrets, "token": token, "steps": steps,
                    "github": github, "temp": temp, "needs": before,
                }), text)  # fmt: skip

            if not self._step(step, place, temp, work, value, steps, run, github):
                run.result = "failure"
                break
        wanted = job.get("outputs", {})
        run.outputs = {key: steps.get(text.split(".")[1], {}).get("manifest", "") for key, text in wanted.items()}
        return run

    def _of(self, name, known):
        kind, _, rest = name.partition(".")
        if name == "github.token":
            return known["token"]
        if name == "runner.temp":
            return str(known["temp"])
        if kind == "needs":
            return known["needs"][rest.split(".")[0]].outputs["manifest"]
        return known[kind].get(rest, "")

    def _step(self, step, place, temp, work, value, steps, run, github):
        given = {key: value(text) for key, text in step.get("with", {}).items()}
        uses = step.get("uses", "")
        shared = self.folder / f"artifacts{self.number}"
        if uses.startswith("actions/checkout@"):
            command = [
                "git",
                "clone",
                "-q",
                "--depth",
                "1",
                "-b",
                "main",
                f"file://{self.fake.hosted.folder}",
                str(work),
            ]
            subprocess.run(command, check=True)
            return True
        if uses.startswith("actions/upload-artifact@"):
            shutil.copytree(given["path"], shared / given["name"])
            self.tamper.get(given["name"], lambda folder: None)(shared / given["name"])
            return True
        if uses.startswith("actions/download-artifact@"):
            shutil.copytree(shared / given["name"], given["path"])
            return True
        output = place / f"output{len(steps)}"
        environ = {
            "PATH": f"{self._shims()}:{os.environ['PATH']}", "HOME": str(place), "GITHUB_ACTIONS": "true",
            "RUNNER_TEMP": str(temp), "GITHUB_WORKSPACE": str(work), "GITHUB_OUTPUT": str(output),
            "GITHUB_API_URL": self.fake.base_url, "GITHUB_SHA": github["sha"], "GITHUB_RUN_ID": github["run_id"],
            **self.environ, **{key: value(text) for key, text in step.get("env", {}).items()},
        }  # fmt: skip
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", step["run"]], cwd=work, env=environ, capture_output=True, text=True
        )
        run.log += done.stdout + done.stderr
        if output.is_file():
            steps[step["id"]] = dict(line.split("=", 1) for line in output.read_text().splitlines())
        return done.returncode == 0

    def _shims(self):
        folder = self.folder / "shims"
        folder.mkdir(exist_ok=True)
        shim = folder / "python3"
        shim.write_text(SHIM.format(coilclaw=Path(sys.executable).parent / "coilclaw"))
        shim.chmod(0o755)
        return folder
