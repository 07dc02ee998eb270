"""Parts of the server that tests serve together, because their routes are looked at together."""

from coilclaw.features.approvals.feature import approvals_part
from coilclaw.features.jobs.feature import jobs_part
from coilclaw.features.notifications.feature import notifications_part
from coilclaw.features.owner_files.feature import owner_files_part
from coilclaw.features.policy.feature import policy_part
from coilclaw.features.records.feature import records_part
from coilclaw.features.schedules.feature import schedules_part
from coilclaw.features.skills.feature import skills_part
from coilclaw.features.sops.feature import sops_part
from coilclaw.features.status.feature import status_part
from coilclaw.features.status.overview import OverviewCounts
from coilclaw.features.status.routes.overview import OverviewRoutes
from coilclaw.server.part import Part


def joined(serving, *makers):
    """Several parts as one."""
    parts = [make(serving) for make in makers]
    given = {name: value for part in parts for name, value in part.given.items()}
    return Part(
        controllers=tuple(each for part in parts for each in part.controllers),
        given=given,
        beside=tuple(each for part in parts for each in part.beside),
        around=next((part.around for part in parts if part.around is not None), None),
    )


def queue_part(serving):
    """Approvals, actions, audit and receipts."""
    return joined(serving, approvals_part, records_part)


def house_part(serving):
    """Policy, the owner's files, and how things stand."""
    return joined(serving, policy_part, owner_files_part, skills_part, status_part)


def work_part(serving):
    """Jobs, procedures, schedules, notifications, and the overview over them."""
    return joined(serving, jobs_part, sops_part, schedules_part, notifications_part, _overview_part)


def _overview_part(serving):
    return Part(controllers=(OverviewRoutes,), given={"overview": OverviewCounts(serving.runtime)})
