"""Commands people and attackers write, and what must be seen in them."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from coilclaw.gate.paths import classify
from coilclaw.lib.shell.command import RULES, CommandFacts, read_command

ROWS: list[dict[str, str]] = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "corpora" / "shell.jsonl").read_text(encoding="utf-8").splitlines()
]


def by_reason() -> dict[str, list[dict[str, str]]]:
    groups: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in ROWS:
        groups[f"{row['expect']}: {row['why']}"].append(row)
    return groups


def seen(facts: CommandFacts, expect: str) -> bool:
    kind, _, name = expect.partition(":")
    if kind in {"forbidden", "reads", "writes"}:
        return name in {"forbidden": facts.programs, "reads": facts.reads, "writes": facts.writes}[kind]
    return kind == ("blocked" if facts.blocked else "opaque" if facts.opaque else "clean")


@pytest.mark.parametrize("group", by_reason())
def test_every_command_of_the_corpus_reads_as_it_should(group: str) -> None:
    wrong = [row["command"] for row in by_reason()[group] if not seen(read_command(row["command"]), row["expect"])]

    assert wrong == []


def test_the_corpus_holds_enough_of_both_kinds() -> None:
    clean = [row for row in ROWS if row["expect"] == "clean"]

    assert len(ROWS) >= 1700
    assert len(clean) >= 550
    assert len({(row["command"], row["expect"]) for row in ROWS}) == len(ROWS)


def test_nothing_clean_writes_what_commands_may_not() -> None:
    for row in ROWS:
        if row["expect"] == "clean":
            written = {classify(path) for path in read_command(row["command"]).writes if path[0] not in "/~"}

            assert not written & {"never", "owner"}, row["command"]


def test_every_rule_that_speaks_is_documented_and_every_documented_rule_speaks() -> None:
    everything = [read_command(row["command"]) for row in ROWS]
    spoken = {reason.rule for facts in everything for reason in (*facts.blocked, *facts.opaque)}

    assert spoken == set(RULES)


def test_every_reason_carries_its_code_one_sentence_and_a_way_out() -> None:
    kinds = ("destructive", "opaque", "interpreter", "executes", "unbounded", "unparsed")
    codes = {kind: f"COMMAND_{kind.upper()}" for kind in kinds}
    for row in ROWS:
        facts = read_command(row["command"])
        for reason in (*facts.blocked, *facts.opaque):
            assert reason.code == codes[reason.rule.split(".")[1]]
            assert reason.text.endswith(".")
            assert reason.change.endswith(".")
            assert reason.text.isprintable()
        assert all(reason.code == "COMMAND_DESTRUCTIVE" for reason in facts.blocked)
        assert not any(reason.code == "COMMAND_DESTRUCTIVE" for reason in facts.opaque)


def test_reading_is_pure_and_gives_the_same_answer_twice() -> None:
    for row in ROWS:
        assert read_command(row["command"]) == read_command(row["command"])
