"""SECURITY.md against the tree: every test it names exists, and every threat names one or admits that there is none."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from coilclaw.ledger.verify import Kind

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def named(page: str) -> list[tuple[str, str]]:
    """Every test that the page names; `::name` is one of the file named before it."""
    found: list[tuple[str, str]] = []
    for file, name in re.findall(r"`(tests/[\w/.]+)?::(\w+)`", page):
        found.append((file or found[-1][0], name))
    return found


NAMED = named(PAGE)


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """The rows of every table in a text, without those above and of its rule."""
    lines = text.splitlines()
    wanted = (
        line
        for line, below in zip(lines, [*lines[1:], ""], strict=True)
        if line[:1] == "|" and not line.startswith("|---") and not below.startswith("|---")
    )
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in wanted]


@cache
def names_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize(("file", "name"), sorted(set(NAMED)))
def test_a_test_that_is_named_exists(file, name):
    assert (ROOT / file).is_file()
    assert name in names_in(file)


@pytest.mark.parametrize("row", rows(section("Threats")), ids=lambda row: row[0][:60])
def test_a_threat_says_what_stops_it_and_what_proves_it(row):
    threat, stops, proof = row
    assert threat
    assert stops
    pointer = r"`(?:tests/[\w/.]+)?::test_\w+`"
    assert proof == "no test yet" or re.fullmatch(rf"`tests/[\w/.]+::test_\w+`(, {pointer})*", proof)


def test_every_kind_of_break_is_explained():
    told = [row[0] for row in rows(section("A broken ledger"))]
    assert sorted(told) == sorted(Kind.__args__)


def test_the_sections_that_messages_point_to_are_there():
    assert "\n## A broken ledger\n" in PAGE
