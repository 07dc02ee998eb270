"""The manual at the terminal."""

import pytest
from click.testing import CliRunner

from coilclaw.cli.commands.docs import docs
from coilclaw.packets.errors import UsageError


def shown(*words):
    return CliRunner().invoke(docs, words, catch_exceptions=False).output


@pytest.mark.parametrize("name", ["policy", "policy.md", "docs/policy.md", "POLICY"])
def test_a_page_is_found_however_a_message_names_it(name):
    assert shown(name).startswith("# Policy\n")


def test_every_page_is_listed_with_what_it_is_about():
    listed = dict(line.split("\t") for line in shown().splitlines())
    assert {"policy", "security", "config", "phone"} <= listed.keys()
    assert all(listed.values())


def test_a_page_that_is_not_there_is_said_with_the_nearest():
    with pytest.raises(UsageError, match="no page 'polcy'"):
        shown("polcy")
