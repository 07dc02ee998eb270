"""The fake coding program that ships with the package: it asks as Claude Code does, and does what its prompt says."""

from coilclaw.features.runner.adapters.claude import read
from coilclaw.features.runner.adapters.contract import (
    HOOK_FOLDER,
    MODEL_URL,
    NO_KEY,
    PYTHON,
    Adapter,
    CliLaunch,
    CliPlace,
    hook_command,
)


def launch(place: CliPlace) -> CliLaunch:
    """It is beside the hook, and needs no installation."""
    return CliLaunch(
        argv=(PYTHON, "-I", "-S", f"{HOOK_FOLDER}/fake_cli.py"),
        environment=(
            ("FAKE_PROMPT", place.prompt),
            ("FAKE_HOOK", hook_command("fake", place.wait_seconds)),
            ("FAKE_MODEL", MODEL_URL),
            ("FAKE_KEY", NO_KEY),
        ),
    )


ADAPTER = Adapter(name="fake", wire="responses", package="", version="1", launch=launch, read=read)
