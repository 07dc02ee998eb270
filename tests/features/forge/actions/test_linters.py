"""The shipped workflows under the linters of others, and those linters on a workflow that is wrong."""

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
