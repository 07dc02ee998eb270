"""Which patrols a folder suggests, by the files in it. Pure; the files are anybody's, and are never run to find out."""

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from coilclaw.config.runner import OFF, PatrolKind

REPORT = "PATROL_REPORT"
"""The variable that names the file where a command may leave its report."""
LOOKED_AT = (
    "pyproject.toml", "pytest.ini", "tox.ini", "conftest.py", "ruff.toml", ".ruff.toml", "package.json",
    "package-lock.json", "eslint.config.js", "eslint.config.mjs", ".eslintrc.json", ".eslintrc.js", ".eslintrc.cjs",
    "Cargo.toml", "Cargo.lock", "go.mod", "Makefile", "requirements.txt", "requirements.lock",
)  # fmt: skip
MOST_BYTES = 256 << 10
_TOOL = re.compile(rb"^[ \t]*\[[ \t]*tool[ \t]*\.[ \t]*(pytest|ruff)[ \t]*[.\]]", re.MULTILINE)
"""A table of a pyproject.toml. It is not parsed: a key of many parts takes a parser minutes."""
_TARGET = re.compile(rb"^(lint|test|build):", re.MULTILINE)


def detect(files: Mapping[str, bytes]) -> dict[PatrolKind, str]:
    """The command of each patrol; of several languages the first that has one."""
    found: dict[PatrolKind, str] = {}
    for part in (_python, _node, _cargo, _go, _make):
        for kind, command in part(files).items():
            found.setdefault(kind, command)
    return found


def commands_of(configured: Mapping[PatrolKind, str], files: Mapping[str, bytes]) -> dict[PatrolKind, str]:
    """The owner's own commands, and where there is none, what the files suggest."""
    found = detect(files)
    found.update(configured)
    return {kind: command for kind, command in found.items() if command != OFF}


def _python(files: Mapping[str, bytes]) -> dict[PatrolKind, str]:
    found: dict[PatrolKind, str] = {}
    tools = set(_TOOL.findall(files.get("pyproject.toml", b"")))
    if b"pytest" in tools or files.keys() & {"pytest.ini", "conftest.py"} or b"[pytest]" in files.get("tox.ini", b""):
        found["test"] = f'python3 -m pytest -q --junitxml="${REPORT}"'
    if b"ruff" in tools or files.keys() & {"ruff.toml", ".ruff.toml"}:
        found["lint"] = "ruff check --no-cache --output-format json ."
    for name in ("requirements.lock", "requirements.txt"):
        if name in files:
            found["deps"] = f"pip-audit --progress-spinner off --format json -r {name}"
            break
    return found


def _node(files: Mapping[str, bytes]) -> dict[PatrolKind, str]:
    scripts = _json(files.get("package.json", b"")).get("scripts")
    scripts = cast("dict[str, Any]", scripts) if isinstance(scripts, dict) else {}
    found: dict[PatrolKind, str] = {}
    if "test" in scripts and "no test specified" not in str(scripts["test"]):
        found["test"] = "npm test --silent"
    if any(name.startswith(("eslint.config", ".eslintrc")) for name in files):
        found["lint"] = "npx --no-install eslint --format json ."
    elif "lint" in scripts:
        found["lint"] = "npm run --silent lint"
    if "build" in scripts:
        found["build"] = "npm run --silent build"
    if "package-lock.json" in files:
        found["deps"] = "npm audit --json --package-lock-only"
    return found


def _cargo(files: Mapping[str, bytes]) -> dict[PatrolKind, str]:
    if "Cargo.toml" not in files:
        return {}
    found: dict[PatrolKind, str] = {
        "test": "cargo test --offline --no-fail-fast --message-format json",
        "lint": "cargo clippy --offline --message-format json",
        "build": "cargo build --offline --message-format json",
    }
    return {**found, "deps": "cargo audit --json --no-fetch"} if "Cargo.lock" in files else found


def _go(files: Mapping[str, bytes]) -> dict[PatrolKind, str]:
    if "go.mod" not in files:
        return {}
    return {"test": "go test -json ./...", "lint": "go vet ./...", "build": "go build ./..."}


def _make(files: Mapping[str, bytes]) -> dict[PatrolKind, str]:
    targets = {match.decode() for match in _TARGET.findall(files.get("Makefile", b""))}
    return {kind: f"make {kind}" for kind in ("lint", "test", "build") if kind in targets}


def _json(data: bytes) -> dict[str, Any]:
    try:
        told = msgspec.json.decode(data or b"{}")
    except (msgspec.DecodeError, RecursionError):
        return {}
    return cast("dict[str, Any]", told) if isinstance(told, dict) else {}
