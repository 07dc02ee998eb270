"""The Containerfile: what it copies is there, what it installs is locked, and nobody in it is root."""

import json
import re
from pathlib import Path

from tests.test_install import ROOT

TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")
STEPS = [
    (word, rest.strip())
    for word, _, rest in (
        line.partition(" ")
        for line in re.sub(r"(?m)^#.*\n", "", TEXT).replace("\\\n", " ").splitlines()
        if line.strip()
    )
]


def steps(word: str) -> list[str]:
    """What stands behind an instruction, each time it occurs."""
    return [rest for each, rest in STEPS if each == word]


def test_every_copied_path_is_in_the_tree_and_none_is_left_out() -> None:
    ignored = set((ROOT / ".containerignore").read_text(encoding="utf-8").split("\n"))
    copied = [rest.split()[:-1] for rest in steps("COPY") if not rest.startswith("--from=")]
    assert copied
    for path in (path for paths in copied for path in paths):
        assert (ROOT / path).exists(), path
        assert path not in ignored, path
    assert {"requirements.lock", "requirements-boot.lock", "hatch_build.py", "README.md", "LICENSE"} <= set(copied[0])


def test_what_was_made_on_this_machine_does_not_get_into_the_image() -> None:
    ignored = (ROOT / ".containerignore").read_text(encoding="utf-8").splitlines()
    assert {".git", ".venv", "src/coilclaw/panel", "**/node_modules"} <= set(ignored)


def test_packages_come_by_their_lock_as_wheels() -> None:
    installs = [part for rest in steps("RUN") for part in rest.split("&&") if "pip install" in part]
    assert len(installs) == 2
    assert "--require-hashes --only-binary :all:" in installs[0]
    assert "--no-deps --offline" in installs[1]


def test_it_runs_as_somebody_without_rights_and_keeps_everything_in_one_volume() -> None:
    assert steps("USER") == ["10001"]
    assert STEPS.index(("USER", "10001")) > max(index for index, (word, _) in enumerate(STEPS) if word == "RUN")
    assert steps("VOLUME") == ["/data"]
    (environment,) = steps("ENV")
    assert "COILCLAW_HOME=/data/home" in environment
    assert "HTTP_ADDR" not in TEXT  # beyond the container only when its owner says so, with TLS


def test_its_health_is_asked_and_arguments_reach_the_program() -> None:
    (health,) = steps("HEALTHCHECK")
    assert json.loads(health.partition("CMD ")[2]) == ["coilclaw", "doctor", "--phone", "--quiet"]
    (entry,) = steps("ENTRYPOINT")
    assert json.loads(entry)[:2] == ["/bin/sh", "-c"]


def test_the_image_is_named_without_a_registry() -> None:
    assert [line for line in TEXT.splitlines() if line.startswith("ARG BASE=")] == ["ARG BASE=debian:bookworm-slim"]
    assert all(rest.startswith("${BASE}") for rest in steps("FROM"))


def test_the_comment_shows_how_it_is_run_read_only() -> None:
    assert "--read-only --tmpfs /tmp -v coilclaw:/data" in TEXT
    assert (Path(ROOT) / "docs" / "phone.md").exists()
