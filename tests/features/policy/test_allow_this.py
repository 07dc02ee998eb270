"""A denial that one setting would lift offers exactly that change, to the owner, and only where it would do."""

import pytest

from coilclaw.gate.turn import Turn
from coilclaw.packets.action import ToolCall
from coilclaw.packets.job import Constraints, JobLimits
from coilclaw.packets.settings import SettingChange
from coilclaw.runtime.settings import proposal

ZIG = SettingChange(key="security.allowed_commands", op="add", value="zig")
HOST = SettingChange(key="security.allowed_domains", op="add", value="open.example")


def decided(home, tool, turn=None, **args):
    return home.conveyor().intake.decide(ToolCall.of(tool, args), turn or Turn("t", "", "chat"))


def test_a_program_and_a_host_are_offered_with_the_command_that_lists_them(sample):
    home = sample()
    program = decided(home, "shell", command="zig build")
    host = decided(home, "http", url="https://open.example/a?b")
    assert (program.verdict, program.allows) == ("deny", (ZIG,))
    assert (host.verdict, host.allows) == ("deny", (HOST,))
    assert "`coilclaw config set --add security.allowed_commands zig`" in program.recommended_changes[0]
    assert "`coilclaw config set --add security.allowed_domains open.example`" in host.recommended_changes[0]
    for change in (ZIG, HOST):
        proposal(home.app, (change,))


@pytest.mark.parametrize(("tool", "args"), [
    ("shell", {"command": "zig build && rm -rf x"}), ("shell", {"command": "zig build > /etc/x"}),
    ("shell", {"command": "'z;g' build"}), ("shell", {"command": "$X build"}),
    ("http", {"url": "http://open.example/"}), ("http", {"url": "https://open.example:8443/"}),
    ("http", {"url": "https://127.0.0.1/"}), ("http", {"url": "https://localhost/"}),
    ("http", {"url": "https://printer.local/"}), ("file_read", {"path": "/etc/passwd"}),
])  # fmt: skip
def test_nothing_is_offered_where_it_would_not_do_or_could_mislead(sample, tool, args):
    decision = decided(sample(), tool, **args)
    assert decision.allows == ()
    assert not any("config set" in change for change in decision.recommended_changes)


def test_nothing_is_offered_in_a_turn_that_took_in_untrusted_content(sample):
    home = sample()
    tainted = Turn("t", "", "chat")
    tainted.take_in("untrusted:page.example")
    assert decided(home, "shell", tainted, command="zig build").allows == ()
    assert decided(home, "http", tainted, url="https://open.example/").allows == ()


def test_nothing_is_offered_where_a_job_is_what_narrows(sample):
    limits = JobLimits(job_id="job_1", constraints=Constraints(allowed_domains=("other.example",)))
    narrowed = Turn("t", "", "job", job=limits)
    assert decided(sample(), "http", narrowed, url="https://open.example/").allows == ()


def test_what_is_allowed_or_asked_offers_nothing(sample):
    assert decided(sample(), "shell", command="make").allows == ()
    assert decided(sample(security__autonomy="full"), "shell", command="zig build").allows == ()
