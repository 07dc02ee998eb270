"""Matching: which skill a message or a job calls for. Pure, and the same every time."""

import re
from collections.abc import Iterable, Sequence
from unicodedata import normalize

from coilclaw.features.skills.skill import Skill
from coilclaw.packets.skill import SkillUse

READ_CHARACTERS = 64 << 10
"""Of a message, so much is looked at."""


def match(skills: Iterable[Skill], words: str, intent: str = "") -> SkillUse | None:
    """The skill whose intent it is; else the one with the longest trigger in it, the first by name among equals."""
    known = sorted(skills, key=lambda skill: skill.name)
    wanted = {_intent(text) for text in (intent, words) if len(text) <= READ_CHARACTERS} - {""}
    for skill in known:
        if skill.intent and _intent(skill.intent) in wanted:
            return skill.use("intent")
    found = _longest(known, f" {folded(words[:READ_CHARACTERS])} ")
    return None if found is None else found[0].use(f"trigger: {found[1]}")


def _longest(skills: Sequence[Skill], text: str) -> tuple[Skill, str] | None:
    best: tuple[Skill, str] | None = None
    length = 0
    for skill in skills:
        for trigger in skill.triggers:
            words = folded(trigger)
            if len(words) > length and f" {words} " in text:
                best, length = (skill, trigger), len(words)
    return best


def _intent(text: str) -> str:
    return " ".join(normalize("NFKC", text).casefold().split())


def folded(text: str) -> str:
    """The words of a text, case folded, with one space between them: what is compared."""
    return " ".join(re.findall(r"\w+", normalize("NFKC", text).casefold()))
