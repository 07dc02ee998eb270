"""Two homes in one folder do not share a workspace unless the owner says so; the doctor says what reaches beyond it."""

import os

import pytest
from click.testing import CliRunner

from coilclaw.cli.commands.init import init
from coilclaw.packets.errors import UsageError
from coilclaw.sandbox.repository import other_homes


def run_init(home, *words):
    runner = CliRunner(env={"COILCLAW_HOME": str(home), "HOME": str(home.parent)})
    return runner.invoke(init, words, catch_exceptions=True)


def test_a_second_home_beside_the_first_is_refused_with_both_remedies(tmp_path):
    assert run_init(tmp_path / "a").exit_code == 0
    refused = run_init(tmp_path / "b")

    assert isinstance(refused.exception, UsageError)
    assert str(tmp_path / "a") in refused.exception.message
    assert "workspace_dir" in refused.exception.remedy
    assert "--share-workspace" in refused.exception.remedy
    assert not (tmp_path / "b" / "workspace").exists()


def test_the_owner_may_share_it_and_is_not_asked_again(tmp_path):
    run_init(tmp_path / "a")
    assert run_init(tmp_path / "b", "--share-workspace").exit_code == 0
    assert run_init(tmp_path / "b").exit_code == 0
    assert run_init(tmp_path / "a").exit_code == 0


def test_a_home_with_a_workspace_of_its_own_is_made(tmp_path):
    run_init(tmp_path / "a")
    run_init(tmp_path / "b")
    config = tmp_path / "b" / "config.toml"
    text = config.read_text()
    config.write_text(f'workspace_dir = "{tmp_path}/other"\n' + "\n".join(
        line for line in text.splitlines() if not line.startswith("workspace_dir")))  # fmt: skip
    made = run_init(tmp_path / "b")
    assert made.exit_code == 0, made.output
    assert (tmp_path / "other" / "SYSTEM.md").exists()


def test_a_home_that_started_sharing_before_this_was_known_is_warned(sample, tmp_path):
    first = sample()
    run_other = first.folder / "other"
    run_other.mkdir()
    (run_other / "workspace").symlink_to(first.workspace)
    first.conveyor()
    config = first.workspace / ".git" / "config"
    config.write_text(config.read_text().replace(f"home = {first.home.root}\n", f"home = {run_other}\n"))
    assert other_homes(first.workspace, first.home.root) == [str(run_other)]
    first.conveyor()
    assert any("another home" in str(fields) for event, fields in first.events if event == "warning")


def test_the_doctor_counts_hard_links_out_of_the_workspace(sample, tmp_path):
    from coilclaw.runtime.workspace_probes import hard_links

    home = sample()
    assert hard_links(home.workspace).state == "ok"
    (tmp_path / "outside").write_text("x")
    for name in ("a.txt", "b.txt"):
        os.link(tmp_path / "outside", home.workspace / name)
    probe = hard_links(home.workspace)
    assert (probe.state, probe.detail) == ("warn", "2 files are hard-linked outside the workspace (a.txt, b.txt)")


@pytest.mark.parametrize("had", [True, False])
def test_a_workspace_of_an_earlier_version_gets_its_settings_at_the_next_start(sample, had):
    home = sample()
    config = home.workspace / ".git" / "config"
    if not had:
        config.write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
    home.conveyor()
    assert "ignoreSubmodules = all" in config.read_text()
    assert f"home = {home.home.root}" in config.read_text()
