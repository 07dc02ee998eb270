"""What stands beside the question of an approval step: what a yes leads to, and what the step before left."""

from collections.abc import Callable

from coilclaw.features.sops.sop import Sop, Step
from coilclaw.packets.canonical import canonical_bytes
from coilclaw.packets.card import BESIDE
from coilclaw.packets.text import one_line, visible
from coilclaw.store.sops import StepRow

MESSAGE_CHARACTERS = 16_000
LEFT_CHARACTERS, LEFT_LINES = 4_000, 100
NEXT_STEPS, NEXT_CHARACTERS = 10, 200


def question(sop: Sop, position: int, before: StepRow | None, redact: Callable[[str], str]) -> str:
    """The owner's words, the steps to come, and the output before it: bounded, nothing hidden in it, no secrets.

    Every line of the output has a mark in front, so that none can pass for a line of ours.
    """
    prompt = sop.steps[position].prompt
    parts = [prompt, BESIDE, _to_come(sop.steps[position + 1 :])]
    if before is not None:
        ended = "left" if before.state == "SUCCEEDED" else f"failed ({one_line(before.code or 'no code')}) and left"
        parts.append(f"\n\nStep {before.step_id} {ended}:\n{_quoted(redact(before.output))}")
    whole = "".join(parts)
    return whole if len(whole) <= MESSAGE_CHARACTERS else _cut(whole, MESSAGE_CHARACTERS, prompt)


def _cut(whole: str, most: int, prompt: str) -> str:
    """The question itself is never cut: there was room for it in the file."""
    note = "\n(Truncated here: see `coilclaw sop status`.)"
    room = most - len(note)
    return f"{whole[:room]}{note}" if room >= len(prompt) + len(BESIDE) else prompt


def _to_come(steps: tuple[Step, ...]) -> str:
    if not steps:
        return "- nothing: this is the last step."
    lines = [f"- {_short(_told(step))}" for step in steps[:NEXT_STEPS]]
    more = len(steps) - NEXT_STEPS
    return "\n".join([*lines, f"- and {more} more."] if more > 0 else lines)


def _told(step: Step) -> str:
    what = step.prompt
    if step.kind == "tool":
        what = f"{step.tool} {canonical_bytes(step.args).decode()}"
    elif step.kind == "agent":
        what = f"the agent: {what}"
    else:
        what = f"asks you again: {what}"
    return one_line(f"{step.id}{f' (when {step.when})' if step.when else ''}: {what.strip()}")


def _short(text: str) -> str:
    return text if len(text) <= NEXT_CHARACTERS else f"{text[:NEXT_CHARACTERS]}…"


def _quoted(output: str) -> str:
    shown = visible(output[: LEFT_CHARACTERS + 1].strip("\n"))  # cut first: what is shown by its number is longer
    lines = shown[:LEFT_CHARACTERS].split("\n")[:LEFT_LINES] if shown.strip() else ["(nothing)"]
    cut = len(output) > LEFT_CHARACTERS or len(shown) > LEFT_CHARACTERS or shown.count("\n") >= LEFT_LINES
    more = "\n… truncated: see `coilclaw sop status`." if cut else ""
    return "\n".join(f"| {line}" for line in lines) + more
