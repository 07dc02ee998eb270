"""Skills for tests: written into a workspace, whole or in part."""

from pathlib import Path

PROCEDURE = """
## Preconditions
- tool: file_read
- The owner is awake.

## Steps
1. Read it. Evidence: the receipt.
2. Report it. Evidence: the artifact `report`.

## Failure modes
- It is not there: say so.

## Rollback
Nothing to take back.
"""


def text(name: str, *head: str, body: str = "Do it well.", description: str = "What it does.", **ours: str) -> str:
    """A SKILL.md; `ours` are keys under metadata, without `coilclaw-`."""
    metadata = ["metadata:", *(f"  coilclaw-{key}: {value}" for key, value in ours.items())] if ours else []
    return "\n".join(("---", f"name: {name}", f"description: {description}", *head, *metadata, "---", body, ""))


def put(workspace: Path, name: str, *head: str, **more: str) -> Path:
    """Write a skill."""
    file = workspace / "skills" / name / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text(name, *head, **more))
    return file


def only(workspace: Path) -> None:
    """Take away the skill that comes with a workspace."""
    (workspace / "skills" / "tidy-notes" / "SKILL.md").unlink()
    (workspace / "skills" / "tidy-notes").rmdir()
