"""What is wrong with a policy file, every fault with its line."""

import re
from collections.abc import Collection, Iterator, Mapping
from json import JSONDecodeError

import msgspec

from coilclaw.gate.policy_file import POLICY_BYTES, PolicyFile, PolicyRule, explained, never_holds
from coilclaw.lib.json_lines import Step, line_of, steps_of
from coilclaw.packets.canonical import Json, NotCanonical, parse_json

MOST_FAULTS = 50
_WHERE = re.compile(r"^(?P<text>.*?)(?: - at `(?P<key>key in )?(?P<path>\$[^`]*)`)?$", re.DOTALL)


class FaultyLine(msgspec.Struct, frozen=True, kw_only=True):
    """Something wrong with a policy file."""

    line: int
    """Counted from 1."""
    path: str
    """Where in the file, such as `$.rules[2].when`."""
    text: str


def policy_faults(data: bytes, tools: Collection[str]) -> list[FaultyLine]:
    """Every fault of a file whose rules may name these tools, in the order of its lines; none when it holds."""
    if len(data) > POLICY_BYTES:
        return [FaultyLine(line=1, path="$", text=f"it is larger than {POLICY_BYTES} bytes")]
    try:
        value = parse_json(data)
    except NotCanonical as error:
        cause = error.__cause__
        line = cause.lineno if isinstance(cause, JSONDecodeError) else 1
        return [FaultyLine(line=line, path="$", text=str(error))]
    text = data.decode("utf-8")
    found: list[FaultyLine] = []
    for steps, message in _faults(value, tools):
        found.append(_placed(text, steps, message))
        if len(found) == MOST_FAULTS:
            break
    return sorted(found, key=lambda fault: fault.line)


def _faults(value: Json, tools: Collection[str]) -> Iterator[tuple[list[Step], str]]:
    """Where a fault is looked for, and what the shape says of it there."""
    if not isinstance(value, Mapping) or not isinstance(value.get("rules"), list):
        yield from _fault_of(value, PolicyFile, [])
        return
    yield from _fault_of({**value, "rules": []}, PolicyFile, [])
    seen: dict[str, int] = {}
    rules = value["rules"]
    assert isinstance(rules, list)  # noqa: S101 - looked at above
    for number, rule in enumerate(rules):
        steps: list[Step] = ["rules", number]
        faults = list(_fault_of(rule, PolicyRule, steps))
        yield from faults
        if not faults:
            for condition, text in never_holds(msgspec.convert(rule, PolicyRule).when, tools):
                yield [*steps, "when", condition], text
        rule_id = rule.get("id") if isinstance(rule, Mapping) else None
        if isinstance(rule_id, str) and seen.setdefault(rule_id, number) != number:
            yield [*steps, "id"], f"the rule id {rule_id!r} is already used by rule {seen[rule_id] + 1} of this file"


def _fault_of(value: object, shape: type[msgspec.Struct], steps: list[Step]) -> Iterator[tuple[list[Step], str]]:
    try:
        msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        found = _WHERE.match(str(error))
        text, path = (found["text"], found["path"] or "$") if found else (str(error), "$")
        told = explained(error)
        yield [*steps, *steps_of(path)], text if told == str(error) else told


def _placed(text: str, steps: list[Step], message: str) -> FaultyLine:
    path = "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return FaultyLine(line=line_of(text, steps), path=path, text=message)
