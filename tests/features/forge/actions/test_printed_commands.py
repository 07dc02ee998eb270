"""What a step prints may hold words of anybody; the runner must not take a line of it for an order."""

import re

from click.testing import CliRunner

from coilclaw.features.forge.commands_ci import ci


def printed(**environ):
    return CliRunner().invoke(ci, ["plan"], env=environ).output.splitlines()


def test_the_runner_is_told_to_obey_no_line_before_anything_else_is_printed():
    first, again = (printed(GITHUB_ACTIONS="true")[0] for _ in range(2))
    assert re.fullmatch("::stop-commands::[0-9a-f]{32}", first)
    assert first != again  # nobody can guess what would end it


def test_elsewhere_nothing_is_said():
    assert not [line for line in printed(GITHUB_ACTIONS="") if line.startswith("::")]
