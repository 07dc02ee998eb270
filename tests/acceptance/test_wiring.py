"""Every guard fires on every path, and no path is left out."""

import ast
import asyncio
import functools
from pathlib import Path

import pytest

import coilclaw
from coilclaw.features.status import canaries
from coilclaw.gate import denials, policy

SOURCE = Path(coilclaw.__file__).parent
ENTRIES = {"carry", "execute", "chat", "send", "stream", "turn", "run_command"}


def enclosing_functions(tree):
    """(function name, called attribute) for every method call of interest."""
    found = []

    def walk(node, function):
        for child in ast.iter_child_nodes(node):
            inside = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
            if isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute):
                found.append((inside, child.func.attr, ast.unparse(child.func.value)))
            walk(child, inside)

    walk(tree, "")
    return found


@functools.cache
def entry_sites():
    """Every place in the source where a call enters the gate, a model is asked, or a request is sent."""
    sites = set()
    for file in SOURCE.rglob("*.py"):
        name = str(file.relative_to(SOURCE))
        for function, attribute, owner in enclosing_functions(ast.parse(file.read_text())):
            carries = attribute in ("carry", "execute") and "conveyor" in owner
            carries = carries or (attribute == "carry" and owner == "self" and name == "gate/conveyor.py")
            asks = attribute == "chat" and ("provider" in owner or owner == "asked")
            asks = asks and not name.startswith("providers/")
            sends = attribute in ("send", "stream") and ("transport" in owner or owner == "airlock")
            boxes = attribute in ("run", "open") and owner == "box" and not name.startswith("sandbox/")
            posts = attribute == "turn" and owner in ("agent", "self._agent")
            if carries or asks or sends or boxes or posts:
                sites.add(f"{name}:{function}")
    return sites


def test_every_way_in_is_listed():
    assert entry_sites() <= set(canaries.SITES)


def test_every_listed_way_in_exists_and_belongs_to_a_path_that_is_tried():
    assert set(canaries.SITES) <= entry_sites() | set()
    assert set(canaries.SITES.values()) <= {*canaries.PATHS, "provider client"}


@pytest.mark.slow
async def test_every_canary_is_caught_on_every_path(tmp_path):
    probes = await canaries.fire(tmp_path)
    assert len(probes) == len(canaries.SHOTS) * len(canaries.PATHS) + 4
    assert [probe for probe in probes if probe.state != "ok"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guard", "rule"),
    [
        ("workspace boundary", denials._deny_paths),
        ("schema", denials._deny_schema),
        ("destructive commands", denials._deny_commands),
        ("secret arguments", denials._deny_secret),
        ("airlock for pages", denials._deny_network),
    ],
)
async def test_a_canary_sings_when_its_guard_is_taken_away(tmp_path, guard, rule):
    """The proof that the canaries can fail: without the rule, the shot is not denied for that reason any more."""
    kept = policy.DENIES
    policy.DENIES = tuple(each for each in kept if each is not rule)
    try:
        field = canaries.Range(tmp_path / "x", stopped=guard == "estop")
        fault = await asyncio.wait_for(
            canaries._one(field, guard, canaries.SHOTS[guard], canaries.PATHS["tool run"]), 60
        )
        field.app.close()
    finally:
        policy.DENIES = kept
    assert fault
