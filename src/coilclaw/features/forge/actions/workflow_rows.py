"""The matrix: which job of which workflow may hold which permissions and secrets, and run what. Data only."""

from collections.abc import Mapping

import msgspec

FOLDER = ".github/workflows"
RUNNER = "ubuntu-24.04"
MOST_MINUTES = 60
PROGRAM = '"$RUNNER_TEMP/coilclaw/bin/coilclaw" ci '
STOP_ENV = {"CI_STOP": "${{ vars.COILCLAW_STOP }}"}
STOP_RUN = 'test -z "$CI_STOP"'
INSTALL = (
    'python3 -m venv "$RUNNER_TEMP/coilclaw"\n'
    '"$RUNNER_TEMP/coilclaw/bin/pip" install --quiet --require-hashes --only-binary :all:'
    " -r .github/coilclaw/requirements.lock"
)
UNPACK = 'tar -x -f "$RUNNER_TEMP/plan/tree.tar" .github/coilclaw'

ACTIONS: Mapping[str, tuple[str, ...]] = {
    "actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683": ("persist-credentials",),
    "actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02": (
        "name", "path", "if-no-files-found", "retention-days",
    ),
    "actions/download-artifact@d3f86a106a0bac45b974a628896c90dbdf5c8093": ("name", "path"),
}  # fmt: skip
"""The only actions, each at one commit, with the inputs it may be given."""
CHECKOUT, _, DOWNLOAD = ACTIONS

OWNER_IF = r"github\.actor_id == '[1-9][0-9]*' \|\| github\.actor_id == vars\.COILCLAW_BOT_ID"
OWN_BRANCHES = r"github\.event\.pull_request\.head\.repo\.full_name == github\.repository"


class JobRights(msgspec.Struct, frozen=True, kw_only=True):
    """What one job of a workflow may hold."""

    permissions: Mapping[str, str]
    secrets: str = ""
    """A pattern of the names of its secrets; empty is none."""
    token: bool = False
    """Whether a step may be given the job's own token."""
    environment: str = ""
    needs: tuple[str, ...] = ()
    condition: str = ""
    """A pattern that its `if` must match; empty: it has none."""
    verb: str = ""
    """The one command it runs."""
    hands_on: bool = False
    """Whether what its command made, and the hash of it, leave the job."""


class WorkflowRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a workflow starts on, and its jobs."""

    triggers: Mapping[str, tuple[str, ...]]
    """What starts it, each with its inputs or branches."""
    group: str
    run_name: str = ""
    """By this the dispatcher knows which job a run is for."""
    jobs: Mapping[str, JobRights]


_READ = {"contents": "read"}
_REFS = {"actions": "write", "contents": "write"}
_MODEL, _APP = "COILCLAW_MODEL_KEY", "COILCLAW_APP_KEY"
_FETCH, _DEPLOY = "COILCLAW_FETCH_[A-Z0-9_]{1,40}", "COILCLAW_DEPLOY_[A-Z0-9_]{1,40}"
_TESTS = JobRights(permissions=_READ, verb="check")

ROWS: Mapping[str, WorkflowRow] = {
    "intake.yml": WorkflowRow(
        triggers={"workflow_dispatch": ("words", "channel", "key")},
        group="intake",
        jobs={"intake": JobRights(permissions=_REFS, token=True, condition=OWNER_IF, verb="intake")},
    ),
    "execute.yml": WorkflowRow(
        triggers={"workflow_dispatch": ("job_id",)},
        group="execute-${{ inputs.job_id }}",
        run_name="execute ${{ inputs.job_id }}",
        jobs={
            "plan": JobRights(
                permissions=_READ, secrets=_MODEL, token=True, environment="model", verb="plan", hands_on=True
            ),
            "fetch": JobRights(permissions=_READ, secrets=_FETCH, needs=("plan",), verb="fetch", hands_on=True),
            "analyse": JobRights(permissions={}, needs=("plan", "fetch"), verb="analyse", hands_on=True),
            "author": JobRights(
                permissions=_READ,
                secrets=_MODEL,
                environment="model",
                needs=("plan", "fetch", "analyse"),
                verb="author",
                hands_on=True,
            ),
            "propose": JobRights(
                permissions=_READ, secrets=_APP, environment="propose", needs=("author",), verb="propose"
            ),
        },
    ),
    "dispatcher.yml": WorkflowRow(
        triggers={"schedule": (), "workflow_dispatch": ()},
        group="dispatcher",
        jobs={"dispatch": JobRights(permissions=_REFS, token=True, verb="dispatch")},
    ),
    "deploy.yml": WorkflowRow(
        triggers={"push": ("main",)},
        group="deploy",
        jobs={
            "tests": _TESTS,
            "deploy": JobRights(
                permissions={**_READ, "deployments": "write"},
                secrets=_DEPLOY,
                token=True,
                environment="production",
                needs=("tests",),
                verb="deploy",
            ),
            "propose": JobRights(
                permissions=_READ,
                secrets=_APP,
                environment="propose",
                needs=("tests", "deploy"),
                condition=r"failure\(\)",
                verb="propose",
            ),
        },
    ),
    "tests.yml": WorkflowRow(
        triggers={"pull_request": ("main",)},
        group="tests-${{ github.ref }}",
        jobs={"tests": msgspec.structs.replace(_TESTS, condition=OWN_BRANCHES)},
    ),
}
