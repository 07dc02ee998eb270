"""ARCHITECTURE.md against the tree: every room and feature has its row, and imports go only where the tables say."""

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


def stated(title: str = "Rooms") -> dict[str, set[str]]:
    """Room or feature to what it may import, as the table says."""
    return {row[0].strip("`"): set(re.findall(r"[a-z_]+", row[2])) - {"nothing"} for row in rows(section(title))}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


@cache
def parsed(path: Path) -> ast.Module:
    """A module of ours, parsed once for all that looks at it."""
    return ast.parse(path.read_text(encoding="utf-8"))


def modules_imported(path: Path) -> set[str]:
    """Every module of ours that a file imports, inside functions and for types too."""
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = full & every_module()
            found |= modules or ({node.module} if node.module != "coilclaw" else set())
    return {name for name in found if name.startswith("coilclaw.")}


@cache
def every_module() -> frozenset[str]:
    return frozenset(map(module_of, SOURCE.rglob("*.py")))


@cache
def edges() -> frozenset[tuple[str, str]]:
    """Every import among our modules."""
    return frozenset((module_of(path), name) for path in SOURCE.rglob("*.py") for name in modules_imported(path))


def contracts() -> list[dict[str, object]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]


def imported(depth: int) -> dict[str, set[str]]:
    """Rooms (depth 1) or features (depth 2) to those they really import."""
    found: dict[str, set[str]] = {}
    for one, other in edges():
        ours, theirs = one.split("."), other.split(".")
        if len(ours) <= depth or len(theirs) <= depth:
            continue
        if depth == 2 and not ours[1] == theirs[1] == "features":
            continue
        if ours[depth] != theirs[depth]:
            found.setdefault(ours[depth], set()).add(theirs[depth])
    return found


def short(name: str) -> str:
    return name.strip().removeprefix("coilclaw.")


def layers(number: int = 0) -> list[set[str]]:
    """The rooms or features of each layer, the highest first."""
    contract = [each for each in contracts() if each["type"] == "layers"][number]
    return [{short(name) for name in layer.split("|")} for layer in contract["layers"]]


def height(number: int) -> dict[str, int]:
    return {name: at for at, layer in enumerate(reversed(layers(number))) for name in layer}


def test_every_room_is_in_the_table_and_every_row_is_a_room():
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    modules = {path.stem for path in SOURCE.glob("*.py")} - {"__init__"}
    assert packages | modules == set(stated())


def test_every_feature_is_in_the_table_and_every_row_is_a_feature():
    assert {path.parent.name for path in SOURCE.glob("features/*/__init__.py")} == set(stated("Features"))


@pytest.mark.parametrize("room", [*sorted(stated()), *(f"features/{name}" for name in sorted(stated("Features")))])
def test_a_room_says_what_it_owns(room):
    path = SOURCE / f"{room}.py" if (SOURCE / f"{room}.py").exists() else SOURCE / room / "__init__.py"
    words = ast.get_docstring(parsed(path))
    assert words, f"{path} has no docstring"


@pytest.mark.parametrize("room", sorted(stated()))
def test_a_room_imports_only_what_the_table_says(room):
    assert imported(1).get(room, set()) <= stated()[room]


@pytest.mark.parametrize("feature", sorted(stated("Features")))
def test_a_feature_imports_only_the_features_it_names(feature):
    assert imported(2).get(feature, set()) <= stated("Features")[feature]


@pytest.mark.parametrize("title", ["Rooms", "Features"])
def test_the_table_has_no_circle(title):
    left = stated(title)
    while left:
        ready = {room for room, needs in left.items() if not needs & set(left)}
        assert ready, f"these import each other in a circle: {sorted(left)}"
        left = {room: needs for room, needs in left.items() if room not in ready}


@pytest.mark.parametrize(("number", "title"), [(0, "Rooms"), (1, "Features")])
def test_the_linter_allows_what_the_table_says(number, title):
    high = height(number)
    assert set(high) == set(stated(title)), "import-linter orders others than the table lists"
    for room, allowed in stated(title).items():
        for other in allowed:
            assert high[other] < high[room], f"import-linter would stop {room} from importing {other}"


def test_the_linter_forbids_nothing_the_table_says():
    for contract in contracts():
        if contract["type"] == "forbidden":
            for room in (short(name) for name in contract["source_modules"] if "*" not in name):
                clash = stated()[room] & set(map(short, contract["forbidden_modules"]))
                assert not clash, f"{contract['name']!r} forbids what the table allows to {room}: {clash}"


def test_the_linter_has_no_exceptions():
    assert not [each["name"] for each in contracts() if each.get("ignore_imports")]


def test_the_glossary_is_in_order_short_and_every_word_has_a_meaning():
    everywhere, _, in_one = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").partition("## In one feature\n")
    for found in (rows(everywhere), rows(in_one)):
        words = [row[0] for row in found]
        assert words
        assert words == sorted(set(words))
        assert all(all(row) for row in found)
    assert len(rows(everywhere)) <= 45
    named = {name.strip() for row in rows(in_one) for name in row[2].split(",")}
    assert named <= set(stated("Features"))


def test_the_page_stays_within_two_screens():
    assert len(PAGE.splitlines()) <= 130


# Guards of ideas. Each list names today's exceptions: take a line out with its cause, never add one.


@cache
def trees() -> dict[str, ast.Module]:
    """Every module of ours, parsed."""
    return {module_of(path): parsed(path) for path in sorted(SOURCE.rglob("*.py"))}


def classes() -> list[tuple[str, ast.ClassDef]]:
    """Every public class, with its module."""
    found = ((name, node) for name, tree in trees().items() for node in tree.body if isinstance(node, ast.ClassDef))
    return [(name, node) for name, node in found if not node.name.startswith("_")]


def bases(node: ast.ClassDef) -> set[str]:
    """The names of what a class is derived from."""
    return {name.id for base in node.bases for name in ast.walk(base) if isinstance(name, ast.Name)}


@cache
def members(node: ast.ClassDef) -> set[str]:
    """What a class defines or is given: its methods, its fields, and what its methods assign to `self`."""
    functions = {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    fields = {
        each.target.id for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    plain = {
        name.id
        for each in node.body
        if isinstance(each, ast.Assign)
        for name in each.targets
        if isinstance(name, ast.Name)
    }
    own = {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
        and isinstance(each.ctx, ast.Store)
    }
    return functions | fields | plain | own


ONE_IMPLEMENTATION = {
    "Files",
    "Notes",
    "Sealer",
    "Vouch",
}
"""Ports that keep a room from importing the one above it."""


def test_a_protocol_has_a_second_implementation_or_a_shipped_fake():
    protocols = [node for _, node in classes() if "Protocol" in bases(node)]
    others = [node for _, node in classes() if "Protocol" not in bases(node)]
    lonely = {
        protocol.name for protocol in protocols if sum(members(protocol) <= members(other) for other in others) < 2
    }
    assert lonely == ONE_IMPLEMENTATION


SQL = re.compile(
    r"\s*(SELECT|INSERT|UPDATE|DELETE|REPLACE|WITH|PRAGMA|BEGIN|COMMIT|ROLLBACK|CREATE|DROP|ALTER|ATTACH)\b"
)
STATEMENT = re.compile(r"\s*(SELECT\s.+\sFROM|INSERT\s.*INTO|UPDATE \w+ SET|DELETE FROM|PRAGMA) \w", re.DOTALL)
"""What is SQL wherever it stands, also in a constant that is handed on."""
SQL_ELSEWHERE = {"cli.commands.estop"}
"""It writes without a home that is open: one transaction that must not wait for anything."""


def is_sql(node: ast.AST) -> bool:
    """Whether this is a statement, or a call that hands one to the database."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return STATEMENT.match(node.value) is not None
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
        return False
    if node.func.attr not in ("execute", "executemany", "executescript"):
        return False
    texts = [
        each.value for each in ast.walk(node.args[0]) if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    return any(SQL.match(text) for text in texts)


def keeps_sql(module: str) -> bool:
    parts = module.split(".")[1:]
    return parts[0] in ("store", "ledger") or (parts[0] == "features" and "store" in (parts[2:3] + parts[-1:]))


def test_sql_is_written_in_store_ledger_and_the_stores_of_features():
    found = {name for name, tree in trees().items() if any(map(is_sql, ast.walk(tree)))}
    assert {name.removeprefix("coilclaw.") for name in found if not keeps_sql(name)} == SQL_ELSEWHERE


def test_only_store_knows_which_database_is_behind_a_transaction():
    def names_sqlite(node: ast.AST) -> bool:
        if isinstance(node, ast.ImportFrom):
            return node.module == "sqlite3" and any(alias.name == "Connection" for alias in node.names)
        return isinstance(node, ast.Attribute) and node.attr == "Connection" and ast.unparse(node.value) == "sqlite3"

    found = {name for name, tree in trees().items() if any(map(names_sqlite, ast.walk(tree)))}
    assert {name for name in found if not name.startswith("coilclaw.store.")} == set()


NAMED_TWICE = {
    "Asked", "Attempt", "Call", "Checked", "Context", "Declared", "Endpoint", "Entry", "Facts", "Fault", "Feed",
    "Field", "Findings", "Follower", "Found", "Head", "Hit", "Item", "Kept", "LastRun", "Limits", "Listing",
    "Numbered", "Options", "Page", "Patience", "Place", "Plan", "Question", "Range", "Reading", "Recorded",
    "Refused", "Reply", "Report", "RunRow", "Said", "SearchArgs", "Seen", "Standing", "Step", "Streams", "Tally",
    "Told", "Turn", "Usage", "Waiting", "Word",
}  # fmt: skip


def test_a_public_class_name_stands_for_one_thing():
    """Sections of the configuration have the names the owner writes, so they are left out."""
    names = [node.name for module, node in classes() if not module.startswith("coilclaw.config.")]
    assert {name for name in names if names.count(name) > 1} == NAMED_TWICE


PROBLEMS_ELSEWHERE = {
    "features.approvals.views",
    "features.jobs.jobs",
    "features.owner_files.owner_files",
    "features.owner_files.shown_file",
    "features.owner_files.views",
    "features.schedules.edits",
    "features.schedules.owner_schedules",
    "features.sops.sop_job",
}


def may_make_problems(module: str) -> bool:
    parts = module.split(".")[1:]
    return parts[0] == "server" or (parts[0] == "features" and parts[2:3] == ["routes"])


def test_http_problems_are_made_by_the_server_and_by_routes():
    made = {"Trouble", "NotThere", "Problem", "problem"}
    found = {
        name
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in made
    }
    assert {name.removeprefix("coilclaw.") for name in found if not may_make_problems(name)} == PROBLEMS_ELSEWHERE


def test_the_wiring_lists_every_feature_and_stays_short():
    from coilclaw.app import FEATURES, feature
    from coilclaw.features import Feature

    assert sorted(FEATURES) == sorted(stated("Features"))
    assert all(isinstance(feature(name), Feature) for name in FEATURES)
    assert len((SOURCE / "app.py").read_text(encoding="utf-8").splitlines()) <= 250


def test_every_command_of_a_feature_is_in_the_table():
    """The table names them, so that starting a command imports no other feature."""
    from coilclaw.cli.group import COMMANDS, MCP_COMMANDS

    named = {target.partition(":")[0] for target, _ in (*COMMANDS.values(), *MCP_COMMANDS.values())}
    homes = {name.partition(".commands")[0] for name in every_module() if ".commands" in name}
    assert named <= every_module()
    assert {name.partition(".commands")[0] for name in named if ".commands" in name} == homes
