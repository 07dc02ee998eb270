"""The doctor tries the broker: from inside a box that was granted a domain."""

import shutil
import subprocess

import msgspec
import pytest

from coilclaw.packets.box import BoxResult
from coilclaw.sandbox.box import open_box, probe_tiers
from coilclaw.sandbox.broker_probe import GRANTED, judged, probe_broker
from tests.missing import lacks
from tests.sandbox.conftest import BUBBLEWRAP

GOOD = b"direct refused\nelsewhere refused\nother 403\ngranted 403\nproxy http://127.0.0.1:3128\n"


class Holed:
    """A box whose network wall is missing: the command runs where we are."""

    tier = "A"

    async def run(self, spec, *, released=None, on_output=None):
        done = subprocess.run(spec.command, capture_output=True, cwd=spec.cwd, check=False, timeout=280)
        return BoxResult(
            end="exited", exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr, seconds=1.0, tier="A"
        )

    def probes(self):
        return []


@pytest.mark.parametrize("tier", ["A", "B"])
def test_a_box_with_a_domain_reaches_only_the_broker(tier):
    if tier == "A" and not shutil.which("bwrap"):
        lacks(*BUBBLEWRAP)
    probe = probe_broker(open_box(hide=(), prefer=tier))
    assert (probe.name, probe.state, probe.remedy) == ("broker", "ok", "")


def test_a_box_without_a_wall_is_found_out_with_a_remedy():
    probe = probe_broker(Holed())
    assert probe.state == "fail"
    assert "this machine was reached past the broker" in probe.detail
    assert probe.remedy


def test_where_no_box_can_be_held_to_domains_the_doctor_warns():
    probe = probe_broker(open_box(hide=(), unsafe=True))
    assert (probe.state, bool(probe.remedy)) == ("warn", True)
    assert "refused" in probe.detail


def answered(**fields):
    """How the probe's command may have ended."""
    result = BoxResult(end="exited", exit_code=0, stdout=GOOD, stderr=b"", seconds=0.1, tier="A")
    return msgspec.structs.replace(result, **fields)


def test_every_answer_but_the_right_one_is_a_fault():
    assert judged(answered(), names=(GRANTED,), reached=False).state == "ok"
    for right, wrong in ((b"direct refused", b"direct REACHED"), (b"elsewhere refused", b"elsewhere REACHED"),
                         (b"other 403", b"other 200"), (b"granted 403", b"granted 200"), (b"proxy http", b"proxy ftp"),
                         (b"granted 403\n", b""), (GOOD, b"")):  # fmt: skip
        assert judged(answered(stdout=GOOD.replace(right, wrong)), names=(), reached=False).state == "fail"
    assert judged(answered(), names=(GRANTED,), reached=True).state == "fail"
    assert judged(answered(), names=(GRANTED, "other.example"), reached=False).state == "fail"
    assert judged(answered(exit_code=1), names=(), reached=False).state == "fail"
    assert judged(answered(end="timeout", exit_code=137), names=(), reached=False).state == "fail"


def test_the_doctor_has_one_line_for_the_broker():
    lines = [probe for probe in probe_tiers() if probe.name == "broker"]
    assert [probe.state for probe in lines] == ["ok"]
