"""The procedure that comes with mail: what needs an answer today. It only reads, and writes a note."""

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

NAME = "needs-answer"


def write_procedure(app: "Runtime") -> Path:
    """Put it into the workspace; one that is there is the owner's, and stays."""
    path = app.workspace / "sops" / NAME / "SOP.toml"
    if path.exists() or path.is_symlink():
        raise UsageError(f"{path} exists already.", remedy="Change it there, or remove it first.")
    text = (files("coilclaw") / "templates" / "sops" / NAME / "SOP.toml").read_text(encoding="utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
