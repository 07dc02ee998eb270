"""The matrix is code: the shipped workflows pass, and each mutation of them is refused for its reason."""

import pytest

from coilclaw.features.forge.actions.shipped import shipped_workflows
from coilclaw.features.forge.actions.workflow_rules import workflow_faults, workflow_name
from coilclaw.features.forge.actions.workflow_yaml import WORKFLOW_BYTES, NotPlainYaml, read_yaml

WORKFLOWS = {workflow_name(path): text for path, text in shipped_workflows(4711).items()}
MODEL = "          CI_MODEL_KEY: ${{ secrets.COILCLAW_MODEL_KEY }}\n"
ANALYSE = """\
          CI_FETCH: ${{ needs.fetch.outputs.manifest }}
        run: |
          "$RUNNER_TEMP/coilclaw/bin/coilclaw" ci analyse
"""
CI_PLAN = '"$RUNNER_TEMP/coilclaw/bin/coilclaw" ci plan'
CHECKOUT = "actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683"
STOP = '        run: test -z "$CI_STOP"\n'
INTAKE_IF = "if: github.actor_id == '4711' || github.actor_id == vars.COILCLAW_BOT_ID"
OWNER_ID = 4711
TAKE_PLAN = """\
          name: plan
          path: ${{ runner.temp }}/plan
      - name: Fetch what it names
"""
HAND_ON_PLAN = """\
          name: plan
          path: ${{ runner.temp }}/plan
          if-no-files-found: error
"""
INSTALL = """\
        run: |
          python3 -m venv "$RUNNER_TEMP/coilclaw"
          "$RUNNER_TEMP/coilclaw/bin/pip" install --quiet --require-hashes --only-binary :all:\
 -r .github/coilclaw/requirements.lock
"""
UNPACK = """\
        run: tar -x -f "$RUNNER_TEMP/plan/tree.tar" .github/coilclaw
"""

MUTATIONS: tuple[tuple[str, str, str, str], ...] = (
    # How the file is read
    ("tests.yml", "name: tests\n\n", "name: &a tests\n\n", "anchor"),
    ("tests.yml", "name: tests\n\n", "name: tests\nname: twice\n\n", "appears twice"),
    ("tests.yml", "permissions: {}", "permissions: {}\nPermissions: write-all", "appears twice"),
    ("tests.yml", "name: tests\n\n", "name: !!str tests\n\n", "a tag"),
    ("tests.yml", "name: tests\n\n", "name: tests\n---\n", "one document"),
    ("tests.yml", "name: tests\n\n", "%YAML 1.1\n---\nname: tests\n", "directive"),
    ("tests.yml", "name: tests\n\n", "name: tests\u2028permissions: write-all\n", "does not show"),
    ("tests.yml", "name: tests\n\n", "name:\ttests\n", "does not show"),
    ("tests.yml", "name: tests\n\n", "name: tests\r\n", "does not show"),
    ("tests.yml", "name: tests\n\n", "name: [tests\n", "not YAML"),
    ("tests.yml", "permissions: {}", "permissions: {contents: write}", "braces must be empty"),
    ("tests.yml", "  pull_request:\n    branches: [main]\n", "  ? [a]\n  : b\n", "key must be a plain text"),
    ("tests.yml", "permissions: {}", "<<: {}\npermissions: {}", "key must be a plain text"),
    # Triggers
    ("tests.yml", "  pull_request:", "  pull_request_target:", "strangers"),
    ("tests.yml", "  pull_request:", "  issue_comment:\n  pull_request:", "on.issue_comment: strangers"),
    ("tests.yml", "  pull_request:", "  issues:\n  pull_request:", "on.issues: strangers"),
    ("tests.yml", "  pull_request:", "  workflow_run:\n  pull_request:", "on.workflow_run: strangers"),
    ("tests.yml", "  pull_request:", "  workflow_call:\n  pull_request:", "on.workflow_call: strangers"),
    ("tests.yml", "  pull_request:", "  repository_dispatch:\n  pull_request:", "on.repository_dispatch: strangers"),
    ("tests.yml", "  pull_request:", "  watch:\n  pull_request:", "on.watch: this workflow starts on"),
    ("execute.yml", "  workflow_dispatch:", "  push:\n  workflow_dispatch:", "on.push: this workflow starts on"),
    ("tests.yml", "on:\n  pull_request:\n    branches: [main]", "on: [pull_request]", "must be a map of triggers"),
    ("deploy.yml", "branches: [main]", "branches: [main, x]", "branch main alone"),
    ("dispatcher.yml", '    - cron: "*/10 * * * *"', '    - cron: "1 * * * *"\n    - cron: "2 * * * *"', "one cron"),
    ("execute.yml", "      job_id:\n", "      words:\n", "inputs: they must be job_id"),
    ("intake.yml", "  workflow_dispatch:\n", "  workflow_dispatch:\n    secrets: x\n", "no secret is passed on"),
    # Permissions
    ("execute.yml", "permissions: {}\n\nc", "permissions: write-all\n\nc", "must be {} at the top"),
    ("execute.yml", "permissions: {}\n\nc", "permissions:\n  contents: write\n\nc", "must be {} at the top"),
    ("execute.yml", "permissions: {}\n\nc", "c", "must be {} at the top"),
    ("execute.yml", "contents: read # the checkout", "contents: write", "its row allows read"),
    ("execute.yml", "contents: read # the checkout", "id-token: write", "id-token: its row allows none"),
    ("execute.yml", "    permissions: {}\n    outputs", "    permissions:\n      contents: read\n    outputs", "none"),
    ("execute.yml", "    permissions: {}\n    outputs", "    permissions: write-all\n    outputs", "must be a map"),
    ("execute.yml", "    permissions: {}\n    outputs", "    outputs", "analyse.permissions: they must be a map"),
    ("deploy.yml", "deployments: write # says how it went", "actions: write", "actions: its row allows none"),
    ("tests.yml", "contents: read # the checkout", "pull-requests: write", "its row allows none"),
    ("intake.yml", "actions: write # starts execute.yml", "packages: write", "its row allows none"),
    # Secrets and tokens
    ("execute.yml", ANALYSE, MODEL + ANALYSE, "analyse.steps[5].env.CI_MODEL_KEY: this job may not hold the secret"),
    ("execute.yml", MODEL, MODEL.replace("MODEL_KEY }}", "APP_KEY }}"), "may not hold the secret COILCLAW_APP_KEY"),
    ("execute.yml", ANALYSE, "          CI_T: ${{ github.token }}\n" + ANALYSE, "may not hold a token"),
    ("execute.yml", ANALYSE, "          CI_T: ${{ secrets.GITHUB_TOKEN }}\n" + ANALYSE, "the secret GITHUB_TOKEN"),
    ("execute.yml", MODEL, "          CI_ALL: ${{ toJSON(secrets) }}\n", "expression is not allowed"),
    ("execute.yml", MODEL, "          CI_ALL: ${{ secrets[inputs.job_id] }}\n", "expression is not allowed"),
    ("execute.yml", MODEL, "          CI_ALL: ${{ SECRETS.COILCLAW_MODEL_KEY }}\n", "expression is not allowed"),
    ("execute.yml", MODEL, "          CI_ALL: x${{ secrets.COILCLAW_MODEL_KEY }}\n", "expression is not allowed"),
    ("execute.yml", MODEL, "          CI_ALL: ${{secrets.COILCLAW_MODEL_KEY}}\n", "expression is not allowed"),
    ("execute.yml", MODEL, MODEL.replace("CI_MODEL_KEY", "LD_PRELOAD"), "is named CI_"),
    ("execute.yml", "jobs:\n", "env:\n  CI_K: ${{ secrets.COILCLAW_MODEL_KEY }}\njobs:\n", "would reach every step"),
    ("execute.yml", "    name: plan\n", "    name: plan\n    env:\n      A: b\n", "would reach every step"),
    ("execute.yml", "    name: plan\n", "    name: ${{ secrets.COILCLAW_MODEL_KEY }}\n", "expression is not allowed"),
    ("execute.yml", "          name: plan\n", "          name: ${{ secrets.COILCLAW_APP_KEY }}\n", "not allowed here"),
    ("execute.yml", "    name: plan\n", "    name: plan\n    secrets: inherit\n", "no secret is passed on whole"),
    ("execute.yml", "    environment: propose\n", "", "environment: it must be propose"),
    ("deploy.yml", "    environment: production\n", "    environment: staging\n", "must be production"),
    ("tests.yml", "    name: tests\n", "    name: tests\n    environment: production\n", "must be left out"),
    # What runs, and where
    ("execute.yml", "runs-on: ubuntu-24.04", "runs-on: self-hosted", "no self-hosted runner"),
    ("execute.yml", "runs-on: ubuntu-24.04", "runs-on: [self-hosted, linux]", "no self-hosted runner"),
    ("execute.yml", "runs-on: ubuntu-24.04", "runs-on: ${{ inputs.job_id }}", "no self-hosted runner"),
    ("execute.yml", "    timeout-minutes: 20\n", "", "timeout-minutes: it must be a number"),
    ("execute.yml", "timeout-minutes: 20", "timeout-minutes: 360", "timeout-minutes: it must be a number"),
    ("execute.yml", "    name: plan\n", "    name: plan\n    container: x\n", "runs on the runner"),
    ("execute.yml", "    name: plan\n", "    name: plan\n    services: x\n", "has no services"),
    ("execute.yml", "    name: plan\n", "    name: plan\n    strategy: x\n", "runs once"),
    ("execute.yml", "    name: plan\n", "    name: plan\n    continue-on-error: true\n", "must stop what follows"),
    ("execute.yml", "    name: plan\n", "    name: plan\n    uses: a/b/.github/workflows/c.yml@v1\n", "reusable"),
    ("execute.yml", "    needs: author\n", "    needs: plan\n", "needs: it must be author"),
    ("execute.yml", "    needs: author\n", "    needs: author\n    if: always()\n", "if: it must be left out"),
    ("intake.yml", INTAKE_IF, "if: github.actor == 'owner'", "if: it must be"),
    ("intake.yml", INTAKE_IF, INTAKE_IF + " || true", "if: it must be"),
    ("intake.yml", "    " + INTAKE_IF + "\n", "", "if: it must be"),
    ("tests.yml", "    if: github.event.pull_request.head.repo.full_name == github.repository\n", "", "if: it must be"),
    ("execute.yml", "group: execute-${{ inputs.job_id }}", "group: execute", "concurrency"),
    ("dispatcher.yml", "cancel-in-progress: false", "cancel-in-progress: true", "concurrency"),
    ("execute.yml", "run-name: execute ${{ inputs.job_id }}\n", "", "run-name: it must be"),
    ("tests.yml", "name: tests\n\n", "run-name: ${{ github.event.pull_request.title }}\n", "run-name: it must be"),
    ("execute.yml", "jobs:\n", "defaults:\n  run: x\njobs:\n", "how every step runs"),
    ("execute.yml", "jobs:\n", "jobs:\n  extra:\n    runs-on: ubuntu-24.04\n", "no row in the matrix"),
    ("deploy.yml", "  propose:\n    name: propose\n", "  revert:\n    name: propose\n", "jobs.propose: it is missing"),
    ("execute.yml", "steps.plan.outputs.manifest }}", "steps.plan.outputs.words }}", "only the hash of a manifest"),
    # Steps
    ("execute.yml", STOP, "        run: true\n", "must read the kill switch"),
    ("execute.yml", "${{ vars.COILCLAW_STOP }}", "${{ vars.COILCLAW_GO }}", "must read the kill switch"),
    ("execute.yml", STOP, STOP + "        if: always()\n", "steps[0].if: it is not used here"),
    ("execute.yml", CI_PLAN, 'echo "${{ inputs.job_id }}"', "no expression stands in a command"),
    ("execute.yml", CI_PLAN, 'echo "${{ github.event.issue.title }}"', "no expression stands in a command"),
    ("execute.yml", CI_PLAN, 'echo "${{ github.head_ref }}"', "no expression stands in a command"),
    ("execute.yml", CI_PLAN, "curl https://example.com", "runs `coilclaw ci plan`, and nothing else"),
    ("execute.yml", CI_PLAN, CI_PLAN + "; env", "and nothing else"),
    ("execute.yml", CI_PLAN, CI_PLAN.replace("plan", "propose"), "runs `coilclaw ci plan`"),
    ("execute.yml", "--require-hashes ", "", "and nothing else"),
    ("execute.yml", CHECKOUT, "actions/checkout@v4", "not an allowed action"),
    ("execute.yml", CHECKOUT, "actions/checkout@" + "0" * 40, "not an allowed action"),
    ("execute.yml", CHECKOUT, CHECKOUT.replace("actions/", "action/"), "not an allowed action"),
    ("execute.yml", CHECKOUT, "./.github/actions/mine", "not an allowed action"),
    ("execute.yml", CHECKOUT, "docker://alpine", "not an allowed action"),
    ("execute.yml", CHECKOUT, "actions/cache@" + "a" * 40, "not an allowed action"),
    ("execute.yml", "          persist-credentials: false\n", "          fetch-depth: 0\n", "persist-credentials must"),
    ("execute.yml", "persist-credentials: false", "persist-credentials: true", "persist-credentials must be false"),
    (
        "execute.yml",
        "persist-credentials: false",
        "persist-credentials: false\n          ref: x",
        "it is not used here",
    ),
    ("execute.yml", "          name: fetch\n", "          name: fetch\n          run-id: 1\n", "it is not used here"),
    ("execute.yml", "        id: plan\n", "        id: plan\n        shell: python\n", "the same shell"),
    ("execute.yml", "        id: plan\n", "        id: plan\n        working-directory: /\n", "root of the checkout"),
    ("execute.yml", "        id: plan\n", "        id: plan\n        continue-on-error: true\n", "must stop"),
    ("execute.yml", "        id: plan\n", f"        id: plan\n        uses: {CHECKOUT}\n", "either run or uses"),
    ("execute.yml", "        id: plan\n", "        id: plan\n        with:\n          a: b\n", "only an action"),
    ("execute.yml", "${{ runner.temp }}/plan\n", "${{ github.workspace }}\n", "expression is not allowed"),
    # An artifact of an untrusted job over the checkout, before its program is installed beside a secret
    ("execute.yml", TAKE_PLAN, TAKE_PLAN.replace("${{ runner.temp }}/plan", "."), "of its own below runner.temp"),
    ("execute.yml", TAKE_PLAN, TAKE_PLAN.replace("temp }}/plan", "temp }}/coilclaw"), "of its own below runner.temp"),
    ("execute.yml", TAKE_PLAN, TAKE_PLAN.replace("plan", "author"), "only from plan"),
    ("execute.yml", INSTALL, UNPACK, "from its own checkout"),
    ("execute.yml", UNPACK, f"        uses: {CHECKOUT}\n", "this job checks nothing out"),
    # A whole home, with its key, or the checkout handed on
    ("execute.yml", HAND_ON_PLAN, HAND_ON_PLAN.replace("temp }}/plan", "temp }}/home"), "of its own below runner.temp"),
    ("execute.yml", HAND_ON_PLAN, HAND_ON_PLAN.replace("${{ runner.temp }}/plan", "~"), "of its own below runner.temp"),
    ("execute.yml", HAND_ON_PLAN, HAND_ON_PLAN.replace("plan", "author"), "hands on plan and nothing else"),
    (
        "tests.yml",
        INSTALL,
        INSTALL + "      - uses: actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02\n",
        "hands on nothing",
    ),
    # A secret for whatever the installation runs
    ("execute.yml", INSTALL, "        env:\n" + MODEL + INSTALL, "steps[2].env: only the step that runs"),
    # Somebody else as the owner
    ("intake.yml", INTAKE_IF, INTAKE_IF.replace("4711", "6666"), "if: it must name the account 4711"),
)


def test_the_shipped_workflows_keep_to_the_matrix() -> None:
    found = [fault for name, text in WORKFLOWS.items() for fault in workflow_faults(name, text.encode(), OWNER_ID)]
    assert found == []


@pytest.mark.parametrize(
    ("name", "old", "new", "reason"), MUTATIONS, ids=[f"{number}: {row[3]}" for number, row in enumerate(MUTATIONS)]
)
def test_a_mutated_workflow_is_refused_for_its_reason(name: str, old: str, new: str, reason: str) -> None:
    text = WORKFLOWS[name]
    assert old in text
    faults = list(workflow_faults(name, text.replace(old, new, 1).encode(), OWNER_ID))
    assert any(reason in fault for fault in faults), faults


def test_there_are_enough_mutations_and_none_twice() -> None:
    assert len({row[:3] for row in MUTATIONS}) == len(MUTATIONS) >= 60


@pytest.mark.parametrize("name", ["extra.yml", "execute.yaml", "sub/execute.yml", "EXECUTE.yml", ".github/workflows/x"])
def test_a_file_without_a_row_may_not_run(name: str) -> None:
    assert "no such workflow" in next(workflow_faults(name, WORKFLOWS["execute.yml"].encode(), OWNER_ID))


def test_every_scalar_is_the_text_that_stands_there() -> None:
    assert read_yaml(b"on: yes\noff: 010\nno: ~\nlist: [a, 'b']\n") == {
        "on": "yes",
        "off": "010",
        "no": "",
        "list": ["a", "b"],
    }


@pytest.mark.parametrize(
    "data", [b"\xff", b"a: b\n" * WORKFLOW_BYTES, b"[" * 500, b"a: *b\n", b"- - - a\n" * 2000, b"a: {b: [c]}"]
)
def test_what_other_readers_might_read_otherwise_is_refused(data: bytes) -> None:
    with pytest.raises(NotPlainYaml):
        read_yaml(data)


@pytest.mark.parametrize("data", [b"", b"- a\n", b"text\n", b"on: x\n", b"jobs:\n  tests: x\n"])
def test_a_file_that_is_no_workflow_has_faults(data: bytes) -> None:
    assert list(workflow_faults("tests.yml", data, OWNER_ID))
