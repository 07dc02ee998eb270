"""Differences are true, and nobody decides by what they write how long looking at it takes."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.gate.difference import MOST_WORK, Comparison, unified

FEW = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "}\n", "\n"]), max_size=40)
MANY = st.lists(st.integers(0, 30).map(lambda number: f"line {number}\n"), max_size=40)
TEXTS = st.one_of(FEW, MANY)


def applied(before: Sequence[str], difference: Sequence[str]) -> list[str]:
    """The text that a difference makes of another, every line it names checked on the way."""
    made: list[str] = []
    at = 0
    for line in difference[2:]:
        kind, rest = line[0], line[1:]
        if line.startswith("@@ "):
            start, _, length = line.split()[1][1:].partition(",")
            place = int(start) - (length != "0")
            made += before[at:place]
            at = place
            continue
        if kind in " -":
            assert before[at] == rest
            at += 1
        if kind in " +":
            made.append(rest)
    return [*made, *before[at:]]


@given(TEXTS, TEXTS)
def test_a_difference_makes_one_text_of_the_other(before: list[str], after: list[str]) -> None:
    assert applied(before, list(unified(before, after, old="x", new="x"))) == after


@given(FEW, FEW, st.integers(0, 500))
def test_so_it_does_when_there_is_too_little_work_left_to_compare(
    before: list[str], after: list[str], work: int
) -> None:
    compared = Comparison(before, after, work=work)
    assert 0 <= compared.work <= work
    for match in compared.get_matching_blocks():
        assert before[match.before : match.before + match.size] == after[match.after : match.after + match.size]
    made: list[str] = []
    for _, start, end, start_after, end_after in compared.get_opcodes():
        made += after[start_after:end_after] if before[start:end] != after[start_after:end_after] else before[start:end]
    assert made == after
    assert compared.work >= 0


def test_what_did_not_change_is_left_out_however_often_its_lines_stand_there() -> None:
    before = [text for number in range(3000) for text in ("{\n", f'  "n": {number}\n', "},\n", "\n")]
    after = [*before[:5], '  "n": "one"\n', *before[6:-3], '  "n": "last"\n', *before[-2:]]
    changed = [line for line in unified(before, after, old="x", new="x") if line[0] in "+-"][2:]
    assert changed == ['-  "n": 1\n', '+  "n": "one"\n', '-  "n": 2999\n', '+  "n": "last"\n']


class Counted(str):
    """A line that counts how often somebody looks at it."""

    __slots__ = ()
    looks = 0

    def __hash__(self) -> int:
        Counted.looks += 1
        return str.__hash__(self)


LETTERS = [chr(33 + number) for number in range(90)] + [f"a{chr(33 + number)}" for number in range(20)]
CYCLE = [LETTERS[number % 110] for number in range(8000)]
SLOW = {
    "backwards": (CYCLE, CYCLE[::-1]),
    "with gaps": (CYCLE, [line for number, line in enumerate(CYCLE) if number % 111]),
    "apart": (CYCLE, [line for number in range(4000) for line in (LETTERS[number * 37 % 110], f"#{number}")]),
    "one line": (["x"] * 8000, ["y", *(["x"] * 7000), "z"]),
}


@pytest.mark.parametrize("name", SLOW)
def test_no_text_makes_a_comparison_long(name: str) -> None:
    before, after = ([Counted(line) for line in side] for side in SLOW[name])
    Counted.looks = 0
    compared = Comparison(before, after)
    compared.get_matching_blocks()
    assert 0 <= compared.work <= MOST_WORK
    assert Counted.looks <= 12 * (len(before) + len(after))


def test_git_takes_it(tmp_path: Path) -> None:
    before = [f"{number}\n" for number in range(50)]
    after = [*before[:3], "new\n", *before[3:20], *before[22:49], "no end"]
    (tmp_path / "f.txt").write_text("".join(before))
    lines = [
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in unified(before, after, old="a/f.txt", new="b/f.txt")
    ]
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input="".join(lines), text=True, check=True, timeout=280)
    assert (tmp_path / "f.txt").read_text() == "".join(after)
