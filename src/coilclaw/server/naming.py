"""One-line descriptions of records: an action's sentence, a goal, a title, a procedure's name; without secrets."""

from collections.abc import Callable, Iterable
from contextlib import suppress

from coilclaw.packets.action import Action
from coilclaw.packets.errors import RowDamaged
from coilclaw.packets.text import one_line
from coilclaw.server.core import Core
from coilclaw.store.actions import load_action
from coilclaw.store.jobs import load_job
from coilclaw.store.sops import load_run
from coilclaw.store.threads import title_of

ABOUT_CHARACTERS = 200


def in_short(core: Core, text: str) -> str:
    """A text on one line without secrets; redacted before it is cut, because half a secret is not recognised."""
    said = one_line(core.said(text))
    return said if len(said) <= ABOUT_CHARACTERS else f"{said[: ABOUT_CHARACTERS - 1]}…"


def sentence_of(core: Core, action: Action) -> str:
    """A sentence that describes an action."""
    return in_short(core, core.conveyor.intake.in_short(action.call))


def abouts(core: Core, entities: Iterable[str]) -> Callable[[], dict[str, str]]:
    """Names of these ids, if known. Read here; the returned function redacts."""
    actions: dict[str, Action] = {}
    texts: dict[str, str] = {}
    for entity in sorted(set(entities)):
        with suppress(RowDamaged):  # an unreadable row has no name
            if entity.startswith("act_") and (action := load_action(core.db.reader, entity)) is not None:
                actions[entity] = action
            elif entity.startswith("job_") and (job := load_job(core.db.reader, entity)) is not None:
                texts[entity] = next((line for line in job.goal.splitlines() if line.strip()), "")
            elif entity.startswith("conv_"):
                texts[entity] = title_of(core.db.reader, entity)
            elif entity.startswith("sop_") and (run := load_run(core.db.reader, entity)) is not None:
                texts[entity] = run.name

    def told() -> dict[str, str]:
        found = {entity: in_short(core, text) for entity, text in texts.items()}
        return {**found, **{entity: sentence_of(core, action) for entity, action in actions.items()}}

    return told
