"""A skill: what SKILL.md says, read strictly, and every fault in it. Pure; the only reader of skills."""

import re
from functools import lru_cache

import msgspec

from coilclaw.features.skills.frontmatter import Fault, Frontmatter, read_frontmatter
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.names import did_you_mean
from coilclaw.packets.skill import SkillUse
from coilclaw.packets.text import visible

FOLDER, FILE = "skills", "SKILL.md"
SKILL_BYTES = 64 << 10
MOST_SKILLS = 200
MOST_NAMES = 64
MOST_FAULTS = 50
LONGEST = {"name": 64, "description": 1024, "compatibility": 500, "license": 500}
KEYS = ("name", "description", "license", "compatibility", "allowed-tools", "metadata")
OURS = ("coilclaw-intent", "coilclaw-triggers", "coilclaw-domains", "coilclaw-evidence", "coilclaw-inputs")
SECTIONS = ("Preconditions", "Steps", "Failure modes", "Rollback")
"""What a skill with an intent must have, each under `## `."""
NOWHERE = "none"
"""As `coilclaw-domains`: no address at all."""

_NAME = r"[a-z0-9]+(-[a-z0-9]+)*\Z"
_PLAIN = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}\Z"
_DOMAIN = r"((\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|https?://[A-Za-z0-9.\[\]:-]{1,260})\Z"
_ITEM = r"(?:[-*+]|\d{1,3}[.)])[ ]+(.*)"
_EVIDENCE = r"(?i)\bevidence\b[*_`]{0,2}:[*_`]{0,2}\s*\S"
_SYMBOL = "\u2190-\u2bff\U0001f000-\U0001faff"
_PICTURE = f"(?<=[{_SYMBOL}])[\ufe0e\ufe0f]|(?<=[\ufe0f{_SYMBOL}])\u200d(?=[{_SYMBOL}])"
"""What makes a symbol a picture hides nothing."""
_NEED = r"(?i)(tool|domain|input|evidence):[ ]*`?([^`\s]+?)`?\.?\Z"


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """One skill."""

    name: str
    description: str
    license: str = ""
    compatibility: str = ""
    tools: tuple[str, ...] | None = None
    """The only tools it leaves; None leaves them all."""
    intent: str = ""
    triggers: tuple[str, ...] = ()
    domains: tuple[str, ...] | None = None
    """The only domains it leaves; None leaves them all."""
    evidence: tuple[str, ...] = ()
    """What a job under it must leave, by the name or kind of an artifact."""
    inputs: tuple[str, ...] = ()
    """What a job under it must be given."""
    preconditions: tuple[str, ...] = ()
    """Those that code can check, as `tool:NAME`, `domain:NAME`, `input:NAME` or `evidence:NAME`."""
    body: str
    sha256: str

    def use(self, why: str) -> SkillUse:
        """The record of its use."""
        needs = (*self.preconditions, *(f"input:{name}" for name in self.inputs))
        needs += tuple(f"evidence:{name}" for name in self.evidence)
        return SkillUse(
            skill=self.name,
            sha256=self.sha256,
            why=why,
            tools=self.tools,
            domains=self.domains,
            needs=tuple(dict.fromkeys(needs)),
        )


class SkillRead(msgspec.Struct, frozen=True, kw_only=True):
    """What reading a file gave: a skill, or why there is none."""

    skill: Skill | None
    faults: tuple[Fault, ...] = ()


def broken(message: str) -> SkillRead:
    """A file that cannot be read at all."""
    return SkillRead(skill=None, faults=(Fault(0, message),))


@lru_cache(maxsize=MOST_SKILLS)
def read_skill(data: bytes, name: str) -> SkillRead:
    """The skill in the folder `name`, or every fault in its file. The same bytes are read once."""
    if len(data) > SKILL_BYTES:
        return broken(f"the file is {len(data)} bytes; at most {SKILL_BYTES} are read.")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return broken(f"the file is not UTF-8 text (byte {error.start}).")
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    hidden = _hidden(lines)
    if hidden:
        return SkillRead(skill=None, faults=hidden)
    if lines[0].rstrip(" ") != "---":
        return SkillRead(skill=None, faults=(Fault(1, "the file begins with a line of three dashes: ---"),))
    end = next((place for place, line in enumerate(lines[1:], 1) if line.rstrip(" ") == "---"), None)
    if end is None:
        return broken("the frontmatter has no end: a second line of three dashes.")
    found = read_frontmatter(lines[1:end], 2)
    checking = _Checking(found, name)
    skill = checking.skill("\n".join(lines[end + 1 :]).strip(), sha256_hex(data), end + 2)
    return SkillRead(skill=skill, faults=tuple(checking.faults[:MOST_FAULTS]))


def _hidden(lines: list[str]) -> tuple[Fault, ...]:
    """Characters that hide or reorder others: what the owner reads must be what the model is told."""
    found: list[Fault] = []
    for number, line in enumerate(lines, 1):
        plain = line if line.isascii() else re.sub(_PICTURE, "", line)
        if visible(plain) != plain:
            marks = " ".join(sorted({visible(each) for each in plain if visible(each) != each}))
            found.append(Fault(number, f"it contains invisible characters: {marks or 'too many accents'}"))
    return tuple(found[:MOST_FAULTS])


class _Checking:
    """One pass over what was read."""

    def __init__(self, found: Frontmatter, folder: str) -> None:
        self._found = found
        self._folder = folder
        self.faults = list(found.faults)

    def _note(self, key: str, message: str) -> None:
        self.faults.append(Fault(self._found.lines.get(key, 0), message))

    def skill(self, body: str, sha256: str, first: int) -> Skill | None:
        """The skill, if nothing is wrong with it."""
        texts, ours = self._found.texts, self._found.metadata
        self._keys()
        self._name(texts.get("name"))
        for key, most in LONGEST.items():
            if len(texts.get(key, "")) > most:
                self._note(key, f"{key} is longer than {most} characters.")
        if not texts.get("description"):
            self._note("description", "description is missing: say what it does and when to use it.")
        intent = ours.get("coilclaw-intent", "")
        tools = self._names("allowed-tools", texts.get("allowed-tools"), None)
        domains = self._domains(ours.get("coilclaw-domains"))
        evidence = self._names("coilclaw-evidence", ours.get("coilclaw-evidence"), _PLAIN)
        inputs = self._names("coilclaw-inputs", ours.get("coilclaw-inputs"), _PLAIN)
        triggers = self._triggers(ours.get("coilclaw-triggers"))
        sections = sections_of(body)
        if intent or "coilclaw-intent" in ours:
            self._procedure(intent, sections)
        preconditions = self._preconditions(sections.get("preconditions", ""))
        if self.faults:
            return None
        return Skill(
            name=self._folder,
            description=texts["description"],
            license=texts.get("license", ""),
            compatibility=texts.get("compatibility", ""),
            tools=tools,
            intent=intent,
            triggers=triggers,
            domains=domains,
            evidence=evidence or (),
            inputs=inputs or (),
            preconditions=preconditions,
            body=body,
            sha256=sha256,
        )

    def _keys(self) -> None:
        for key in self._found.texts:
            if key not in KEYS:
                meant = f"Put it under metadata as {key!r}." if key in OURS else did_you_mean(key, KEYS)
                self._note(key, f"there is no key {key!r}. {meant}")
        for key in self._found.metadata:
            if key.startswith("coilclaw") and key not in OURS:
                self._note(f"metadata.{key}", f"there is no key {key!r}. {did_you_mean(key, OURS)}")

    def _name(self, name: str | None) -> None:
        if name is None:
            self._note("", f"name is missing: write `name: {self._folder}`.")
        elif name != self._folder:
            self._note("name", f"name is {name!r}, but the folder is called {self._folder!r}; they must match.")
        if not re.match(_NAME, self._folder):
            self._note("name", f"{self._folder!r} is not a valid name: lower-case letters, digits and single hyphens.")

    def _names(self, key: str, value: str | None, shape: str | None) -> tuple[str, ...] | None:
        if value is None:
            return None
        place = key if key in KEYS else f"metadata.{key}"
        names = tuple(dict.fromkeys(value.replace(";", " ").split()))
        if not names:
            self._note(place, f"{key} is empty: name something, or leave the key out.")
        if len(names) > MOST_NAMES:
            self._note(place, f"{key} has more than {MOST_NAMES} names.")
        for name in () if shape is None else (name for name in names if not re.match(shape, name)):
            self._note(place, f"{key}: {_quoted(name)} is not a valid name.")
        return names

    def _domains(self, value: str | None) -> tuple[str, ...] | None:
        before = len(self.faults)
        domains = self._names("coilclaw-domains", value, _DOMAIN)
        if domains is None or domains == (NOWHERE,):
            return None if domains is None else ()
        if len(self.faults) == before:
            from coilclaw.runtime.reachable import unlistable

            for fault in unlistable(domains):  # the airlock could not be narrowed to it
                self._note("metadata.coilclaw-domains", f"coilclaw-domains: {fault}.")
        return domains

    def _triggers(self, value: str | None) -> tuple[str, ...]:
        if value is None:
            return ()
        triggers = tuple(dict.fromkeys(" ".join(part.split()) for part in value.split(";")))
        for trigger in triggers:
            if not re.search(r"\w", trigger):
                self._note("metadata.coilclaw-triggers", "a trigger is empty: write words, with `;` between triggers.")
        if len(triggers) > MOST_NAMES:
            self._note("metadata.coilclaw-triggers", f"there are more than {MOST_NAMES} triggers.")
        return triggers

    def _procedure(self, intent: str, sections: dict[str, str]) -> None:
        """A skill with an intent is a procedure, and says what can go wrong."""
        if not intent:
            self._note("metadata.coilclaw-intent", "coilclaw-intent is empty: write it, or leave the key out.")
        for title in SECTIONS:
            if not sections.get(title.casefold(), "").strip():
                self._note("", f"a skill with an intent needs a section `## {title}`.")
        steps = items_of(sections.get("steps", ""))
        if not steps and sections.get("steps", "").strip():
            self._note("", "`## Steps` has no list of steps.")
        for number, step in enumerate(steps, 1):
            if not re.search(_EVIDENCE, step):
                self._note("", f"step {number} does not name its evidence: write `Evidence: …` in it.")

    def _preconditions(self, text: str) -> tuple[str, ...]:
        """The preconditions that are written so that code can check them; the others are for the model."""
        found = (re.match(_NEED, item.strip()) for item in items_of(text))
        needs = tuple(dict.fromkeys(f"{each[1].lower()}:{each[2]}" for each in found if each is not None))
        for need in needs:
            kind, _, name = need.partition(":")
            if not re.match(_DOMAIN if kind == "domain" else _PLAIN, name):
                self._note("", f"`## Preconditions`: {_quoted(name)} is not a valid name of {_article(kind)}.")
        return needs


def _quoted(name: str) -> str:
    """A name as it stands, or not at all: the half of a secret would not be found."""
    return repr(name) if len(name) <= 200 else f"a name of {len(name)} characters"


def _article(kind: str) -> str:
    return f"an {kind}" if kind == "input" else ("evidence" if kind == "evidence" else f"a {kind}")


def sections_of(body: str) -> dict[str, str]:
    """The text under each `## ` heading by its case-folded title; a heading in a fenced block is none."""
    found: dict[str, list[str]] = {}
    title, fence = "", ""
    for line in body.split("\n"):
        mark = line.strip()[:3]
        if mark in ("```", "~~~"):
            fence = "" if fence == mark else (fence or mark)
        if not fence and line.startswith("## "):
            title = line[3:].strip().rstrip("#").strip().casefold()
            found.setdefault(title, [])
        elif not fence and line.startswith("# "):
            title = ""
        elif title:
            found[title].append(line)
    return {name: "\n".join(lines) for name, lines in found.items()}


def items_of(text: str) -> list[str]:
    """The items of the list in a section, each with the lines that belong to it."""
    items: list[list[str]] = []
    for line in text.split("\n"):
        found = re.match(_ITEM, line)
        if found is not None:
            items.append([found[1]])
        elif items:
            items[-1].append(line)
    return ["\n".join(item) for item in items]
