"""What work waits for the owner to answer, in a line each."""

from coilclaw.features.jobs.views import JobQuestion
from coilclaw.packets.action import Action
from coilclaw.server.core import Core
from coilclaw.server.naming import sentence_of


def question_of(core: Core, action: Action) -> JobQuestion:
    """A waiting action, as shown with its job or run."""
    return JobQuestion(
        action_id=action.action_id,
        tool=action.call.tool,
        summary=sentence_of(core, action),
        lane=action.decision.lane,
        risk=action.decision.risk,
        expires_at=action.expires_at,
    )
