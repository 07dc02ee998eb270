"""The doctor's lines, as a program reads them."""

import os

import pytest

from tests.acceptance.conftest import HomeAt


@pytest.mark.slow
def test_the_doctor_tells_of_the_broker_in_json_too(home: HomeAt) -> None:
    probes = home.run("doctor", "--json").json()
    (broker,) = [probe for probe in probes if probe["name"] == "broker"]
    assert broker["state"] == "ok"
    assert "reached only the broker" in broker["detail"]
    assert "remedy" in broker


@pytest.mark.slow
def test_a_workspace_is_private_and_one_that_others_can_write_is_reported(empty: HomeAt) -> None:
    before = os.umask(0)
    try:
        empty.ok("init")
    finally:
        os.umask(before)
    workspace = empty.workspace
    assert workspace.stat().st_mode & 0o777 == 0o700

    def probed() -> dict[str, str]:
        (found,) = [each for each in empty.run("doctor", "--json").json() if each["name"] == "workspace"]
        return found

    assert probed()["state"] == "ok"
    workspace.chmod(0o755)
    (workspace / "SYSTEM.md").chmod(0o644)
    for folder in ("policies", "cron", "skills", "sops"):
        for path in (workspace / folder, *(workspace / folder).rglob("*")):
            path.chmod(path.stat().st_mode & ~0o022)
    assert probed()["state"] == "warn"
    (workspace / "cron/jobs.json").chmod(0o666)
    assert probed()["state"] == "fail"
    assert "cron/jobs.json can be written by other users" in probed()["detail"]
    assert "chmod -R go-rwx" in probed()["remedy"]


@pytest.mark.slow
def test_a_key_or_a_configuration_that_is_gone_is_reported(home: HomeAt) -> None:
    home.ok("tool", "run", "time")

    def states() -> dict[str, str]:
        return {each["name"]: each["state"] for each in home.run("doctor", "--short", "--json").json()}

    assert (states()["ledger"], states()["home"]) == ("ok", "ok")
    (home.root / "keys/ledger.key").rename(home.base / "key")
    (home.root / "config.toml").rename(home.base / "config")
    assert (states()["ledger"], states()["home"]) == ("fail", "warn")
