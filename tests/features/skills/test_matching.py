"""Matching: intent, then the longest trigger in whole words, then the name."""

import pytest

from coilclaw.features.skills.matching import match
from coilclaw.features.skills.skill import read_skill
from tests.features.skills.shelf import PROCEDURE, text


def skill(name, **ours):
    found = read_skill(text(name, body=PROCEDURE, **ours).encode(), name).skill
    assert found is not None
    return found


SHELF = [
    skill("b", triggers="tidy up; clean"),
    skill("a", triggers="clean; tidy up the notes"),
    skill("c", intent="pay_bills", triggers="Straße fegen"),
]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("please TIDY   up!", ("b", "trigger: tidy up")),
        ("tidy up the notes, please", ("a", "trigger: tidy up the notes")),
        ("clean it", ("a", "trigger: clean")),
        ("unclean", None),
        ("cleaner", None),
        ("tidy it up", None),
        ("STRASSE FEGEN", ("c", "trigger: Straße fegen")),
        ("Pay_Bills", ("c", "intent")),
        ("pay_bills and clean", ("a", "trigger: clean")),
        ("", None),
        ("clean " + "x " * 100_000, ("a", "trigger: clean")),
    ],
)
def test_the_longest_trigger_in_whole_words_wins_and_ties_go_by_name(words, found):
    use = match(SHELF, words)
    assert (None if use is None else (use.skill, use.why)) == found


def test_the_intent_of_a_job_comes_before_every_trigger():
    use = match(SHELF, "tidy up the notes", intent="PAY_BILLS")
    assert use is not None
    assert (use.skill, use.why) == ("c", "intent")
