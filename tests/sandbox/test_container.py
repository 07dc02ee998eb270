"""Containers for untrusted code on runners: what they are given, and that nothing of ours comes along."""

from itertools import pairwise

import pytest

from coilclaw.packets.errors import BoxUnavailable, ToolError
from coilclaw.sandbox.container import OUTPUT_BYTES, container_command, run_container

IMAGE = "docker.io/library/python@sha256:" + "a" * 64


@pytest.fixture
def docker(tmp_path, monkeypatch):
    """A docker that is a script of ours."""

    def put(text):
        program = tmp_path / "bin" / "docker"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")

    return put


def test_a_container_has_no_network_no_rights_no_variable_and_no_writable_disk(tmp_path):
    command = container_command(IMAGE, "make test", tmp_path, "x")
    pairs = dict(pairwise(command))
    assert (pairs["--network"], pairs["--cap-drop"], pairs["--user"]) == ("none", "ALL", "65534:65534")
    assert pairs["--volume"] == f"{tmp_path}:/tree:ro"
    assert "--read-only" in command
    assert pairs["--security-opt"] == "no-new-privileges"
    assert not {"-e", "--env", "--env-file", "--privileged", "-p"} & set(command)
    assert command[-4:] == [IMAGE, "sh", "-c", "make test"]


@pytest.mark.parametrize(
    "image", ["python:3", "python", "", "--privileged@sha256:" + "a" * 64, IMAGE + "a", IMAGE[:-1]]
)
def test_an_image_without_its_digest_is_not_run(image, tmp_path):
    with pytest.raises(ToolError, match="with a digest"):
        container_command(image, "x", tmp_path, "x")


def test_secrets_of_the_job_do_not_reach_the_client(docker, tmp_path, monkeypatch):
    monkeypatch.setenv("CI_MODEL_KEY", "canary")
    docker('env; echo "$@"; exit 3')
    done = run_container(IMAGE, "x", tmp_path, 10)
    assert done.exit_code == 3
    assert b"canary" not in done.output


def test_what_writes_without_end_is_ended_and_cut(docker, tmp_path):
    docker('test "$1" = kill || exec yes')
    done = run_container(IMAGE, "x", tmp_path, 30)
    assert (done.cut, len(done.output)) == (True, OUTPUT_BYTES)


def test_what_does_not_end_is_ended(docker, tmp_path):
    docker('test "$1" = kill || exec sleep 60')
    assert run_container(IMAGE, "x", tmp_path, 0.2).exit_code != 0


def test_without_docker_nothing_untrusted_is_run(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BoxUnavailable):
        run_container(IMAGE, "x", tmp_path, 1)
