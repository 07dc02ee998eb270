"""The documents against the code: rules, exit codes, decisions, links, the picture, and what is made from others."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from coilclaw.gate.policy import WHERE
from coilclaw.gate.policy_file import PolicyFile
from coilclaw.lib.shell.rules import RULES, reason
from coilclaw.packets import errors
from coilclaw.packets.decision import Autonomy

ROOT = Path(__file__).resolve().parent.parent
WRITTEN = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
POLICY = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
EXIT_CODES = (ROOT / "docs" / "exit-codes.md").read_text(encoding="utf-8")
STANDS_FOR = {
    "allowlist.": ["allowlist.LAYER"],
    "answer.": ["answer.ID"],
    "policy.": ["policy.ID"],
    "address.": [f"address.{each}" for each in WHERE],
    "autonomy.": [f"autonomy.{each}" for each in get_args(Autonomy)],
}
"""Rule ids that are made when they speak, by how they begin."""


def emitted() -> set[str]:
    """Every rule id that the gate can give, read from its source."""
    found = set(RULES)
    for path in (ROOT / "src" / "coilclaw" / "gate").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Reason"):
                continue
            rule = next((word.value for word in node.keywords if word.arg == "rule"), None)
            if isinstance(rule, ast.Constant):
                found.add(str(rule.value))
            elif isinstance(rule, ast.JoinedStr):
                found.update(STANDS_FOR[str(rule.values[0].value)])
    return found


def listed() -> list[str]:
    """Every rule id that has a row on the page."""
    return re.findall(r"^\| `([\w.-]+)` \| (?:deny|ask|allow)", POLICY, re.MULTILINE)


def test_the_policy_page_lists_every_rule_once_and_no_other():
    assert sorted(listed()) == sorted(emitted())


@pytest.mark.parametrize("rule", sorted(RULES))
def test_the_policy_page_says_what_a_command_rule_says(rule):
    verdict = "deny" if rule.startswith("command.destructive.") else "ask"
    assert f"| `{rule}` | {verdict} | `{reason(rule).code}` | {RULES[rule]} |" in POLICY


def test_the_examples_of_policy_files_hold():
    files = [text for text in re.findall(r"```json\n(.*?)```", POLICY, re.DOTALL) if '"rules"' in text]
    assert files
    for text in files:
        msgspec.json.decode(text, type=PolicyFile)


def test_every_exit_code_of_the_error_tree_is_on_the_page():
    codes = {each.exit_code for each in vars(errors).values() if isinstance(each, type) and hasattr(each, "exit_code")}
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", EXIT_CODES, re.MULTILINE)}
    assert told == {0, 1, 2, 3, 4, 5, 6, 7, 130}
    assert codes <= told


def test_every_decision_is_in_the_index():
    index = (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")
    pages = {path.name for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md")}
    assert pages == set(re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", index))


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_leads_nowhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{link} in {page.name}"
        assert not anchor or anchor in anchors(target), f"{link} in {page.name}"


def test_the_picture_is_light_and_asks_the_network_for_nothing():
    picture = (ROOT / "docs" / "images" / "first-run.svg").read_text(encoding="utf-8")
    assert len(picture.encode()) < 60_000
    assert re.findall(r"https?://[^\s\"')]+", picture) == ["http://www.w3.org/2000/svg"]


@pytest.mark.slow
def test_nothing_that_is_made_from_the_code_is_stale():
    command = [sys.executable, str(ROOT / "scripts" / "docs.py"), "--check"]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert (asked.returncode, asked.stderr) == (0, "")


@pytest.fixture
def typed(monkeypatch):
    """The module of types that the panel would get of a document."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    from contract import Contract
    from typescript import Writer

    return lambda document: Writer(Contract(document)).module()


def test_the_panels_types_are_what_the_document_says(typed):
    document = msgspec.json.decode((ROOT / "docs" / "openapi.json").read_bytes())
    schema = (ROOT / "web" / "src" / "api" / "schema.ts").read_text(encoding="utf-8")
    assert typed(document) == schema, "web/src/api/schema.ts is stale: run .venv/bin/python scripts/docs.py"
    for name in document["components"]["schemas"]:
        assert re.search(rf"^export (interface|type) {name} ", schema, re.MULTILINE), name


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "integer"}, "number"),
        ({"enum": ["a", "it's", None], "type": ["null", "string"]}, "'a' | 'it\\'s' | null"),
        ({"oneOf": [{"$ref": "#/components/schemas/PageOfJob"}, {"type": "null"}]}, "PageOfJob | null"),
        ({"type": "array", "items": {"type": ["string", "null"]}}, "(string | null)[]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "{ [key: string]: number }"),
        ({}, "Json"),
    ],
)
def test_a_schema_becomes_exactly_its_type(typed, schema, written):
    one = {"properties": {"left-out": schema, "needed": schema}, "required": ["needed"]}
    module = typed({"paths": {}, "components": {"schemas": {"One": one, "TwoOne": schema}}})
    assert f"export interface One {{\n  'left-out'?: {written};\n  needed: {written};\n}}" in module
    assert f"export type TwoOne = {written};" in module


def test_a_name_that_tells_of_modules_because_two_structs_share_theirs_is_refused(typed):
    with pytest.raises(ValueError, match="two structs are called the same: a_One"):
        typed({"paths": {}, "components": {"schemas": {"a_One": {}, "Two": {}}}})
