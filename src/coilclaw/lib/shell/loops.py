"""Detects endless loops, pipes that end, and functions that multiply, from the tree and its text."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

_ALWAYS = re.compile(
    r"true|:|/bin/true|! *false|\[\[? *(1|true|1 *(=|==|-eq) *1) *\]?\]|test +1|\(\( *1 *\)\)|sleep +\S+|yes|let +1"
)
_NEVER = re.compile(r"false|/bin/false|! *(true|:)|\[\[? *\"\" *\]?\]|\(\( *0 *\)\)")
_LEAVES = re.compile(r"\b(break|exit|return|exec)\b")
_TAKES = re.compile(r"\s*(?:head\b|dd\b.*\bcount=|[ef]?grep\b.*\s(?:-\w*m|--max-count)|sed\b.*\dq)")
_COMMENT = re.compile(r"(?:^|(?<=[\s;]))#[^\n]*")


def goes_on_forever(loop: "Node", source: bytes) -> bool:
    """True for a loop whose condition never fails and whose body never breaks."""
    body = loop.child_by_field_name("body")
    if body is None:
        return False
    inside = source[body.start_byte : body.end_byte].decode(errors="replace")
    head = source[loop.start_byte : body.start_byte].decode(errors="replace")
    if _LEAVES.search(_COMMENT.sub("", inside)):
        return False
    if loop.type == "c_style_for_statement":
        parts = head.partition("((")[2].rpartition("))")[0].split(";")
        return len(parts) == 3 and parts[1].strip() in {"", "1", "true"}
    keyword, _, condition = head.partition(" ")
    condition = condition.strip(" \t\n;")
    return (_ALWAYS if keyword.startswith("while") else _NEVER).fullmatch(condition) is not None


def takes_only_so_much(stage: str) -> bool:
    """True when a stage of a pipe stops after a known amount."""
    return _TAKES.match(stage) is not None


def fork_bomb(name: str, body: "Node", source: bytes) -> bool:
    """True when a function pipes into itself or starts itself in the background."""
    todo = [body]
    wanted = name.encode()
    while todo:
        node = todo.pop()
        if node.type == "pipeline":
            calls = sum(_is_call(child, wanted, source) for child in node.named_children)
            if calls > 1:
                return True
        children = node.children
        for index, child in enumerate(children[:-1]):
            if children[index + 1].type == "&" and _mentions(child, wanted, source):
                return True
        todo += children
    return False


def _is_call(node: "Node", name: bytes, source: bytes) -> bool:
    target = node.child_by_field_name("name")
    return target is not None and source[target.start_byte : target.end_byte] == name


def _mentions(node: "Node", name: bytes, source: bytes) -> bool:
    todo = [node]
    while todo:
        current = todo.pop()
        if current.type == "command" and _is_call(current, name, source):
            return True
        todo += current.children
    return False
