"""A home made for one run of a workflow: the same gate, a ledger and a key of its own, and nobody to ask."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from coilclaw.cli.open_home import opened
from coilclaw.config import Home
from coilclaw.packets.errors import UsageError
from coilclaw.runtime import Runtime

SETTINGS = ".github/coilclaw/config.toml"
SETTINGS_BYTES = 64 << 10
TOKEN = "CI_TOKEN"  # noqa: S105 - the name of a variable


class RunPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run works."""

    temp: Path
    """The runner's own folder: artifacts, the home, the program."""
    checkout: Path

    def folder(self, name: str) -> Path:
        """An empty folder that becomes an artifact."""
        made = self.temp / name
        made.mkdir(mode=0o700)
        return made


def run_places(environ: Mapping[str, str]) -> RunPlaces:
    """Where a run works, as the runner says; UsageError anywhere else."""
    temp, checkout = environ.get("RUNNER_TEMP", ""), environ.get("GITHUB_WORKSPACE", "")
    if environ.get("GITHUB_ACTIONS") != "true" or not temp or not checkout:
        remedy = "They are run by the workflows that `coilclaw bot setup --actions` writes."
        raise UsageError("these commands work in a run of GitHub Actions only.", remedy=remedy)
    return RunPlaces(temp=Path(temp), checkout=Path(checkout))


@contextmanager
def run_home(places: RunPlaces) -> Iterator[Runtime]:
    """Make a home for this run, and open it. Its settings stand in the repository, where only the owner merges."""
    from coilclaw.cli.commands.init import make_home, make_parts
    from coilclaw.config import load
    from coilclaw.sandbox.repository import settle

    home = Home(places.temp / "home")
    file = places.checkout / SETTINGS
    if file.is_symlink() or not file.is_file() or file.stat().st_size > SETTINGS_BYTES:
        raise UsageError(
            f"{SETTINGS} is missing.", remedy="Run `coilclaw bot setup --actions` and push what it writes."
        )
    home.root.mkdir(mode=0o700, exist_ok=True)
    own = f"workspace_dir = {msgspec.json.encode(str(places.checkout)).decode()}\n"
    home.config_file.write_text(own + file.read_text("utf-8"), "utf-8")
    os.environ["COILCLAW_HOME"] = str(home.root)
    make_home(home)
    make_parts(home, load(home, os.environ).config)
    settle(places.checkout, home.root)
    with opened() as app:
        github = app.config.forge.github
        if os.environ.get(TOKEN):  # the job's own token instead of the App's
            github = msgspec.structs.replace(github, token_env=TOKEN)
        github = msgspec.structs.replace(github, api_url=os.environ.get("GITHUB_API_URL") or github.api_url)
        forge = msgspec.structs.replace(app.config.forge, kind="github", enabled=True, github=github)
        app.config = msgspec.structs.replace(app.config, forge=forge)
        yield app
