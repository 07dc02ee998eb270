"""Checks and deployment in Actions: what stands on main, or would after a merge, is read and tried."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw.features.forge.actions.workflow_check import changed_workflow_faults
from coilclaw.features.forge.builtin_checks import (
    policy_faults,
    registry_faults,
    secret_faults,
    skill_faults,
    sop_faults,
)
from coilclaw.features.forge.checks import read_merge
from coilclaw.features.forge.github.api import GitHubApi
from coilclaw.features.forge.github.objects import NO_FILES
from coilclaw.packets.canonical import JsonObject
from coilclaw.packets.errors import UsageError
from coilclaw.sandbox.bot_repository import BotRepository
from coilclaw.tools.approval import RUNTIME_TOOLS

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

ENVIRONMENT = "production"
MOST_FAULTS = 50


def tree_faults(app: "Runtime") -> Iterator[str]:
    """What the runtime could not read or must not hold, in everything that is checked out."""
    repository = BotRepository(app.workspace)
    head = repository.resolve("HEAD")
    if not head:
        raise UsageError("nothing is checked out.")
    merge = read_merge(repository, head, NO_FILES, head)
    tools = dict(app.tools)
    callable_tools = {name: tool for name, tool in tools.items() if name not in RUNTIME_TOOLS}
    yield from policy_faults(merge, tools)
    yield from registry_faults(merge, app.redact)
    yield from sop_faults(merge, callable_tools, app.redact)
    yield from skill_faults(merge)
    yield from changed_workflow_faults(merge, app.config.forge.github.owner_id)
    yield from secret_faults(merge, app.redactor.certain)


def own_check_faults(app: "Runtime", tree: Path) -> Iterator[str]:
    """The owner's own checks, each in a container without network, secrets and a writable disk."""
    from coilclaw.sandbox.container import run_container

    image = app.config.forge.github.image
    for name, check in sorted(app.config.forge.checks.items()):
        if not image:
            raise UsageError("your own checks need a container image.", remedy="Set forge.github.image.")
        done = run_container(image, check.command, tree, check.timeout_seconds)
        if done.exit_code:
            tail = app.redact(done.output.decode("utf-8", "replace"))[-2000:]
            yield f"{name} ended with {done.exit_code}: {tail}"


async def deploy(app: "Runtime", commit: str) -> list[str]:
    """Try what was merged, and say on GitHub how it went; the faults."""
    api = GitHubApi(app)
    asked: JsonObject = {
        "ref": commit, "environment": ENVIRONMENT, "auto_merge": False, "required_contexts": [],
        "description": "What was merged is read and tried.",
    }  # fmt: skip
    number = (await api.write("POST", "/deployments", asked)).get("id")
    await api.write("POST", f"/deployments/{number}/statuses", {"state": "in_progress"})
    try:
        faults = [app.redact(fault) for fault in await asyncio.to_thread(lambda: list(tree_faults(app)))][:MOST_FAULTS]
    except Exception:
        await api.write("POST", f"/deployments/{number}/statuses", {"state": "error"})
        raise
    words = "Everything can be read." if not faults else f"{len(faults)} found."
    state = "failure" if faults else "success"
    await api.write("POST", f"/deployments/{number}/statuses", {"state": state, "description": words})
    return faults
