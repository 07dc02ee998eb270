"""Ignore rules mean what git takes them to mean, in bounded steps."""

import itertools
import subprocess

import pytest

from coilclaw.sandbox.ignore_rules import Glob, IgnoreRules, Segment, spellings

NAMES = ["a", "b.py", "B.py", "build", "x y", "#odd", "!odd", "a[1].txt", "deep", ".hidden", "foo.o", "ä.txt"]
RULES = """
*.py
!b.py
build/
/a
deep/*
deep/**
**/foo.o
deep/**/b.py
a[1].txt
a\\[1\\].txt
[a-c]
[!a-c]*
[^d]eep
?.py
\\#odd
\\!odd
# a comment
x\\ y
x y
*
!*/
a/**
**
.hidden
*.[oa]
foo*
deep
/deep/build
deep/build/
ä.*
""".strip().split("\n")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    root = tmp_path_factory.mktemp("repo")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    paths = []
    for parts in itertools.chain(((name,) for name in NAMES), itertools.product(("deep", "sub"), NAMES),
                                 itertools.product(("deep",), ("build", "mid"), NAMES)):  # fmt: skip
        if parts in [("deep",), ("deep", "build")]:
            continue
        path = root.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text("x")
            paths.append("/".join(parts))
    return root, paths


def ours(rules, path):
    """As a walk asks: every folder on the way first; nothing below one that is left out comes back."""
    parts = path.split("/")
    steps = range(1, len(parts) + 1)
    return any(rules.says("/".join(parts[:depth]), is_folder=depth < len(parts)) for depth in steps)


@pytest.mark.parametrize("text", [*RULES, *(f"{one}\n{other}" for one, other in itertools.pairwise(RULES))])
def test_a_rule_means_what_git_takes_it_to_mean(repository, text):
    root, paths = repository
    (root / ".gitignore").write_text(text + "\n")
    said = subprocess.run(
        ["git", "-c", "core.excludesFile=/dev/null", "-C", str(root), "check-ignore", "-z", "--no-index", "--stdin"],
        input="\0".join(paths), capture_output=True, text=True, check=False,
    ).stdout.split("\0")  # fmt: skip
    rules = IgnoreRules(text)
    assert {path for path in paths if ours(rules, path)} == {path for path in said if path}


def test_a_pattern_that_would_backtrack_for_ever_is_matched_at_once():
    assert not Segment("*a" * 200 + "b").matches("a" * 255)
    assert not Glob("**/a/" * 90 + "x").matches("a/" * 2000 + "y")


def test_braces_are_spelled_out_and_bounded():
    assert spellings("*.{ts,tsx}") == ["*.ts", "*.tsx"]
    assert sorted(spellings("{a,b}/{c,{d,e}}")) == ["a/c", "a/c", "a/d", "a/e", "b/c", "b/c", "b/d", "b/e"]
    assert len(spellings("{a,b}" * 40)) <= 200


@pytest.mark.parametrize(
    ("pattern", "path", "meant"),
    [
        ("*.py", "a/b/c.py", True),
        ("src/**/*.ts", "src/a/b.ts", True),
        ("src/**/*.ts", "src/b.ts", True),
        ("src/*.ts", "src/a/b.ts", False),
        ("./src/*.ts", "src/b.ts", True),
        ("*.{c,h}", "x/y.h", True),
        ("**", "any/thing", True),
        ("test_*", "tests/test_a.py", True),
    ],
)
def test_globs_of_a_search(pattern, path, meant):
    assert Glob(pattern).matches(path) == meant
