"""The fake structured program that ships with the package: it speaks as Claude Code does, and does its task."""

from pathlib import Path

from coilclaw.features.runner.adapters.contract import MCP_URL, MODEL_URL, NO_KEY, PYTHON, CliLaunch, CliPlace
from coilclaw.features.runner.structured.claude import begin, hear, refuse, say
from coilclaw.features.runner.structured.contract import StructuredDriver

_AT = "/opt/coilclaw/fake/fake_cli.py"


def launch(place: CliPlace) -> CliLaunch:
    """It needs no installation."""
    del place
    return CliLaunch(
        argv=(PYTHON, "-I", "-S", "-u", _AT),
        environment=(("FAKE_MODEL", MODEL_URL), ("FAKE_KEY", NO_KEY), ("FAKE_MCP", MCP_URL)),
        managed=((_AT, Path(__file__).with_name("fake_cli.py").read_text(encoding="utf-8")),),
    )


DRIVER = StructuredDriver(name="fake", launch=launch, begin=begin, hear=hear, say=say, refuse=refuse)
