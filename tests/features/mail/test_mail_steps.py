"""Steps of procedures that act in an account's name."""

from coilclaw.features.sops.sop_toml import read_sop

STEP = """
name = "look"
version = "1"
description = "x"
[[steps]]
id = "find"
kind = "tool"
tool = "gmail_search_threads"
args = {{ query = "is:unread"{identity} }}
"""


def faults(home, identity):
    read = read_sop(STEP.format(identity=identity).encode(), "look", home.app.tools, str)
    return [fault.message for fault in read.faults if "args" in fault.message]


def test_step_names_its_identity_among_the_arguments(mail_home):
    assert faults(mail_home, ', identity = "user"') == []


def test_step_without_identity_is_a_fault(mail_home):
    for given in ("", ', identity = "root"'):
        assert faults(mail_home, given) == ['args: gmail_search_threads needs identity = "user" or "bot".']
