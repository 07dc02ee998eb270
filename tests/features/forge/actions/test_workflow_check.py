"""The matrix where it is enforced: the required check, the doctor, the command."""

from click.testing import CliRunner

from coilclaw.features.forge.actions.shipped import shipped_workflows
from coilclaw.features.forge.actions.workflow_check import folder_faults
from coilclaw.features.forge.commands_actions import check_workflows
from coilclaw.features.forge.forge import LocalForge
from coilclaw.features.forge.probes import forge_probes


def put(root, owner_id=4711, **changed):
    for path, text in shipped_workflows(owner_id).items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(changed.get(file.stem, lambda each: each)(text))


def test_the_shipped_workflows_pass_the_command(tmp_path):
    put(tmp_path)
    done = CliRunner().invoke(check_workflows, [str(tmp_path)], standalone_mode=False)
    assert (done.return_value, done.output) == (0, "5 workflows: nothing is wrong.\n")


def test_a_fault_ends_the_command_with_1_and_is_named(tmp_path):
    put(tmp_path, execute=lambda text: text.replace("ubuntu-24.04", "self-hosted", 1))
    done = CliRunner().invoke(check_workflows, [str(tmp_path)], standalone_mode=False)
    assert done.return_value == 1
    assert ".github/workflows/execute.yml: jobs.plan.runs-on: it must be ubuntu-24.04" in done.output


def test_links_large_files_and_strangers_in_the_folder_are_faults(tmp_path):
    put(tmp_path)
    folder = tmp_path / ".github/workflows"
    (folder / "tests.yml").unlink()
    (folder / "tests.yml").symlink_to("deploy.yml")
    (folder / "deploy.yml").write_bytes(b"#" * (65 << 10))
    (folder / "own.yml").write_text("on: push\n")
    found = folder_faults(tmp_path, 4711)
    assert sorted(path.rpartition("/")[2] for path, faults in found.items() if faults) == [
        "deploy.yml", "own.yml", "tests.yml",
    ]  # fmt: skip


def test_the_doctor_names_a_workflow_outside_the_matrix(sample):
    home = sample(forge__enabled=True)

    def probe():
        return next(each for each in forge_probes(home.app, home.app.db.reader) if each.name == "workflows")

    assert (probe().state, probe().detail) == ("ok", "none")
    put(home.workspace)
    LocalForge(home.app).bot.settle("by hand")
    assert (probe().state, probe().detail) == ("ok", "5, all within the matrix")
    put(home.workspace, tests=lambda text: text.replace("  pull_request:", "  pull_request_target:"))
    LocalForge(home.app).bot.settle("by hand")
    assert (probe().state, "pull_request_target" in probe().detail) == ("fail", True)
