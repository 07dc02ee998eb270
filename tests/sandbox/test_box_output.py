"""What a command writes is handed over while it runs, and little of it is kept however much it is."""

import pytest

from coilclaw.sandbox.capture import KeptOutput

GIGABYTE = 1 << 30


def test_output_is_heard_while_the_command_runs(box, limits):
    (box.workspace / "heard").unlink(missing_ok=True)
    result = box.run("echo ready; until [ -e heard ]; do sleep 0.02; done; echo done >&2", limits=limits())
    assert (result.end, result.stdout, result.stderr) == ("exited", b"ready\n", b"done\n")
    assert box.heard == {"stdout": 6, "stderr": 5}


@pytest.mark.slow
def test_a_gigabyte_of_escapes_without_a_newline_neither_stalls_nor_fills_memory(box, limits):
    flood = limits(wall_seconds=600.0, cpu_seconds=600, output_bytes=4 << 30, kept_bytes=64 << 10)
    result = box.run(f"head -c {GIGABYTE} /dev/zero | tr '\\0' '\\033'", limits=flood)
    assert (result.end, result.exit_code) == ("exited", 0)
    assert box.heard == {"stdout": GIGABYTE, "stderr": 0}
    assert b"bytes left out" in result.stdout
    assert len(result.stdout) <= 64 << 10
    assert box.peak < 256 << 20


def test_what_is_cut_is_the_middle_and_no_half_of_a_line_stands_beside_it():
    kept = KeptOutput(1000)
    lines = [b"line %06d of the output" % number for number in range(10_000)]
    for line in lines:
        kept.add(line + b"\n")
    head, said, tail = kept.whole().partition(b"\n[")
    left_out = int(tail.split()[0])
    shown = [*head.splitlines(), *tail.partition(b"\n")[2].splitlines()]
    assert said
    assert set(shown) <= set(lines)
    assert (shown[0], shown[-1]) == (lines[0], lines[-1])
    assert left_out + sum(len(line) + 1 for line in shown) == sum(len(line) + 1 for line in lines)


@pytest.mark.parametrize("size", [0, 1, 999, 1000])
def test_what_fits_is_kept_whole(size):
    kept = KeptOutput(1000)
    kept.add(b"x" * size)
    assert kept.whole() == b"x" * size
