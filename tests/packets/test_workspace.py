"""Patterns of paths: exact, and never slow, however deep a path is."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.packets.workspace import path_matches

PARTS = st.lists(st.sampled_from(["a", "b", "ab", "", "é"]), min_size=1, max_size=7).map("/".join)
PATTERNS = st.lists(st.sampled_from(["a", "b", "*", "a*", "**", "?", ""]), min_size=1, max_size=6).map("/".join)


def by_definition(pattern, path):
    """As the words say it, however long it takes."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(by_definition(pattern[1:], path[start:]) for start in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], pattern[0]) and by_definition(pattern[1:], path[1:])


@given(PATTERNS, PARTS)
def test_a_pattern_covers_what_its_definition_says(pattern, path):
    assert path_matches(pattern, path) == by_definition(pattern.split("/"), path.split("/"))


@pytest.mark.parametrize(
    ("pattern", "path", "covers"),
    [
        ("intel/**", "intel/2026/a.md", True),
        ("intel/**", "intelligence/a.md", False),
        ("**/*.md", "a.md", True),
        ("**/*.md", "a/b/c.md", True),
        ("*.md", "a/b.md", False),
        ("a/**/z", "a/z", True),
        ("a/**/z", "a/b/c/z/y", False),
    ],
)
def test_a_pattern_is_read_as_the_owner_means_it(pattern, path, covers):
    assert path_matches(pattern, path) is covers


def test_a_path_as_deep_as_names_allow_is_matched_against_many_folders():
    deep = "/".join(["a"] * 2000)
    assert not path_matches("/".join(["**", "a"] * 40 + ["x"]), deep)
    assert path_matches("/".join(["**", "a"] * 40), deep)
