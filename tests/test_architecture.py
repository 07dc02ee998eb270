"""ARCHITECTURE.md against the tree: every room is in its table, and imports go only where the table says."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "coilclaw"
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return cells[2:]


def stated() -> dict[str, set[str]]:
    """Room to what it may import, as the table says."""
    return {row[0].strip("`"): set(re.findall(r"[a-z]+", row[2])) - {"nothing"} for row in rows(section("Rooms"))}


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def modules_imported(path: Path) -> set[str]:
    """Every module of ours that a file imports, inside functions and for types too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "coilclaw":
            found |= {f"coilclaw.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return {name for name in found if name.startswith("coilclaw.")}


@cache
def imported() -> dict[str, set[str]]:
    """Room to the rooms it really imports."""
    rooms: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        if path.parent == SOURCE and path.name == "__init__.py":
            continue
        others = {name.split(".")[1] for name in modules_imported(path)} - {"__version__"}
        rooms.setdefault(room_of(path), set()).update(others - {room_of(path)})
    return rooms


def contracts() -> list[dict[str, object]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]


def short(name: str) -> str:
    return name.strip().removeprefix("coilclaw.")


def layers() -> list[set[str]]:
    """The rooms of each layer, the highest first."""
    (contract,) = [each for each in contracts() if each["type"] == "layers"]
    return [{short(name) for name in layer.split("|")} for layer in contract["layers"]]


def test_every_room_is_in_the_table_and_every_row_is_a_room():
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages == set(stated())


@pytest.mark.parametrize("room", sorted(stated()))
def test_a_room_says_what_it_owns(room):
    path = SOURCE / f"{room}.py" if (SOURCE / f"{room}.py").exists() else SOURCE / room / "__init__.py"
    words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert words, f"{path} has no docstring"


@pytest.mark.parametrize("room", sorted(stated()))
def test_a_room_imports_only_what_the_table_says(room):
    assert imported()[room] <= stated()[room]


def test_the_table_has_no_circle():
    left = stated()
    while left:
        ready = {room for room, needs in left.items() if not needs & set(left)}
        assert ready, f"these import each other in a circle: {sorted(left)}"
        left = {room: needs for room, needs in left.items() if room not in ready}


def test_the_linter_allows_what_the_table_says():
    height = {room: number for number, layer in enumerate(reversed(layers())) for room in layer}
    assert set(height) <= set(stated()), "import-linter orders a room that is not in the table"
    for room, allowed in stated().items():
        for other in allowed:
            if room in height and other in height:
                assert height[other] < height[room], f"import-linter would stop {room} from importing {other}"


def test_the_linter_forbids_nothing_the_table_says():
    for contract in contracts():
        if contract["type"] == "forbidden":
            for room in map(short, contract["source_modules"]):
                clash = stated()[room] & set(map(short, contract["forbidden_modules"]))
                assert not clash, f"{contract['name']!r} forbids what the table allows to {room}: {clash}"


def test_every_room_but_configuration_has_a_layer():
    """Configuration stands beside the layers: another contract keeps every room from reading it."""
    assert set(stated()) - {room for layer in layers() for room in layer} == {"config"}


def test_the_glossary_is_in_order_and_every_word_has_a_meaning():
    words = [row[0] for row in rows(section("Glossary"))]
    assert words == sorted(set(words))
    assert all(row[1] for row in rows(section("Glossary")))
