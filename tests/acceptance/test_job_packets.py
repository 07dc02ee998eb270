"""A JobSpecPacket as its document writes it, handed in whole."""

import json

from tests.acceptance.conftest import HomeAt

PACKET = {
    "job_id": "job_2026_02_23_001",
    "intent": "REPO_VULN_FIX_FIRST",
    "repo": "owner/repo",
    "constraints": {
        "allowed_tools": ["git", "rg", "npm", "node", "bash"],
        "allowed_domains": ["github.com"],
        "max_files_changed": 25,
    },
    "outputs": {"pr_required": True, "evidence_required": ["scan_report", "tests_passed"]},
}


def created(home: HomeAt, packet: dict[str, object]) -> tuple[int, dict[str, object]]:
    ran = home.run("job", "create", "--spec", "-", "--json", stdin=json.dumps(packet))
    return ran.rc, ran.json()


def test_the_packet_of_the_document_is_taken_whole_and_what_is_not_there_yet_is_reported(home: HomeAt) -> None:
    rc, job = created(home, PACKET)
    assert rc == 3
    assert job["state"] == "DENIED"
    spec = job["spec"]
    assert (spec["intent"], spec["repo"], spec["outputs"]) == (PACKET["intent"], PACKET["repo"], PACKET["outputs"])
    assert spec["constraints"]["max_files_changed"] == 25
    for word in ("owner/repo", "github.com"):
        assert word in job["reason"]
    assert "git" not in job["reason"].replace("github.com", "")


def test_programs_among_the_tools_narrow_commands(home: HomeAt) -> None:
    within = {**PACKET, "repo": None, "outputs": {}, "constraints": {"allowed_tools": ["git", "rg", "file_read"]}}
    rc, job = created(home, within)
    assert rc == 0
    limits = job["spec"]["constraints"]
    assert limits["allowed_programs"] == ["git", "rg"]
    assert limits["allowed_tools"] == ["file_read", "shell"]


def test_a_tool_that_does_not_exist_is_not_a_program(home: HomeAt) -> None:
    _, job = created(home, {"intent": "x", "constraints": {"allowed_tools": ["file_raed"]}})
    assert job["state"] == "DENIED"
    assert "file_read" in job["reason"]


def test_the_same_packet_again_is_the_same_job_and_its_id_finds_it(home: HomeAt) -> None:
    packet = {**PACKET, "repo": None, "outputs": {}, "constraints": {}}
    first, second = created(home, packet)[1], created(home, packet)[1]
    assert first["job_id"] == second["job_id"] != PACKET["job_id"]
    assert home.ok("job", "show", "job_2026_02_23_001", "--json").json()["job_id"] == first["job_id"]


def test_a_job_is_called_off_by_the_id_of_its_packet(home: HomeAt) -> None:
    packet = {"job_id": "job_pk1", "intent": "run touch q"}
    job = created(home, packet)[1]
    home.ok("job", "resume", "job_pk1")
    home.ok("job", "cancel", "job_pk1")
    assert home.ok("job", "show", str(job["job_id"]), "--json").json()["state"] == "CANCELLED"


def test_another_packet_under_the_same_id_is_refused(home: HomeAt) -> None:
    assert created(home, {"job_id": "job_x2", "intent": "one thing"})[0] == 0
    ran = home.run("job", "create", "--spec", "-", stdin=json.dumps({"job_id": "job_x2", "intent": "another thing"}))
    assert ran.rc == 2
    assert "another packet was handed in as job_x2" in ran.err
    assert "Send this one under another job_id." in " ".join(ran.err.split())


def test_a_packet_that_was_refused_can_be_sent_again(home: HomeAt) -> None:
    first = created(home, PACKET)[1]
    rc, second = created(home, {**PACKET, "repo": None, "outputs": {}, "constraints": {}})
    assert rc == 0
    assert second["job_id"] != first["job_id"]
    assert home.ok("job", "show", str(PACKET["job_id"]), "--json").json()["job_id"] == second["job_id"]


def test_a_packet_with_a_field_nobody_knows_is_refused(home: HomeAt) -> None:
    for wrong in ({"intent": "x", "mode": "yolo"}, {"repo": "x"}):
        ran = home.run("job", "create", "--spec", "-", stdin=json.dumps(wrong))
        assert ran.rc == 2, ran


def test_a_new_workspace_has_a_place_for_directives_and_reports_and_ignores_logs(home: HomeAt) -> None:
    comms = (home.workspace / "COMMS.md").read_text()
    assert "\n## Directives\n" in comms
    assert "\n## Reports\n" in comms
    assert "/logs" in (home.workspace / ".gitignore").read_text().splitlines()
