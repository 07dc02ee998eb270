"""Commits leave a session only by the runner, which reads every one of them."""

from functools import partial

import msgspec
import pytest

from coilclaw.cli.card_text import describe
from coilclaw.cli.commands.tool import run_tool
from coilclaw.features.forge.store import keep_session_pull, load_pull, pulls_before
from coilclaw.features.runner.leaving import Leaving, PushArgs, is_manifest, is_workflow, push_call
from coilclaw.features.runner.questions import tell_push
from coilclaw.packets.card import nobody
from coilclaw.packets.errors import ToolError
from coilclaw.packets.forge import PullRequest
from coilclaw.runtime.owner_calls import OwnerCalls
from coilclaw.store.actions import load_action
from tests.features.runner.repo_world import git
from tests.features.runner.session_world import SessionWorld, until
from tests.features.runner.test_desk import row_of
from tests.features.runner.test_hooks import begin, said, with_fake
from tests.features.runner.test_tokens import bearer
from tests.server.wire import code

SECRET = "sekrit-value-8fJ2kQ0x7LmZ"


@pytest.mark.parametrize(
    "path",
    """package.json package-lock.json npm-shrinkwrap.json web/pnpm-lock.yaml pnpm-workspace.yaml .npmrc
    package.yaml package.json5 .pnpmfile.cjs pnpm-lock.yml
    requirements.txt requirements-dev.txt requirements/base.txt pyproject.toml setup.py setup.cfg uv.lock
    dev-requirements.txt requirements/ci/base.in constraints-3.txt pylock.toml pylock.dev.toml uv.toml pip.ini
    Cargo.toml a/b/Cargo.lock .cargo/config a/.cargo/config.toml rust-toolchain.toml
    go.mod go.sum go.work go.work.sum vendor/modules.txt .gitmodules .pre-commit-config.yaml
    pom.xml app/build.gradle.kts Thing.csproj flake.lock mix.exs""".split(),  # noqa: SIM905
)
def test_manifests_are_known(path):
    assert is_manifest(path)
    assert not is_manifest(f"{path}.md")


@pytest.mark.parametrize(
    "path",
    """.github/workflows/ci.yml .GitHub/workflows/x .gitlab-ci.yml Jenkinsfile .github .travis.yml
    .buildkite/pipeline.yml bitbucket-pipelines.yml azure-pipelines.yaml .cirrus.yml""".split(),  # noqa: SIM905
)
def test_workflows_are_known(path):
    assert is_workflow(path)
    assert not is_workflow(f"docs/{path}.md")


async def committed(world, site, *files, last=()):
    """A session that committed files, each in a commit of its own."""
    lines = []
    for path, text in files:
        folder = path.rpartition("/")[0]
        lines += [f"run mkdir -p ./{folder}", f"write {path} {text}", "run git add .", "run git commit -qm one"]
    policy = {"shell_allowlist": ["git", "mkdir", "sh", "echo"]}
    session_id = await begin(world, site, *lines, *last, "say committed", "type", policy=policy)
    text = await said(world, site, session_id, "committed")
    assert "denied" not in text
    assert "exit 1" not in text, text
    return session_id


async def proposed(world, site, session_id):
    call = await push_call(world.app, world.sessions, session_id, "A change")
    calls = OwnerCalls(world.app, site.background._conveyor)
    return calls, await calls.make(call, by="test", key=None)


async def approved(world, site, action):
    """What comes of the owner's yes."""
    conveyor = site.background._conveyor
    yes = await world.app.approvals(conveyor).approve(action, by="terminal", digest=action.digest)
    return await conveyor.execute(yes)


@pytest.mark.parametrize(
    ("message", "subject"),
    [
        ("Mend the sum\n\nIt was wrong.", "Mend the sum"),
        ("  Mend \t the\x1b[2J sum  ", "Mend the⟨U+001B⟩[2J sum"),
        ("word " * 30, f"{'word ' * 14}w…"),
        ("", ""),
        ("\ndiff --git a/x b/x", ""),
    ],
)
def test_newest_commit_is_read_for_its_subject(message, subject):
    head = "a" * 40
    log = f"commit {head}\nA <a@example>\nC <c@example>\n{message}\n\ndiff --git a/x b/x\n".encode()
    assert Leaving(head=head, log=log, paths=()).subject == subject
    assert len(Leaving(head=head, log=log, paths=()).subject) <= 72
    assert Leaving(head="b" * 40, log=log, paths=()).subject == ""


@pytest.mark.slow
async def test_pull_request_without_a_title_is_called_by_its_newest_commit(sessions_of_a_home):
    world = with_fake(sessions_of_a_home())
    async with world.serving() as site:
        session_id = await committed(
            world, site, ("made.txt", "text"), last=("run git commit -q --allow-empty -m two",)
        )
        call = await push_call(world.app, world.sessions, session_id, "")
        assert msgspec.json.decode(call.args_bytes)["title"] == "two"


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["A", "B"])
async def test_commits_become_a_pull_request_once_approved(sessions_of_a_home, tier):
    world = with_fake(sessions_of_a_home(tier))
    async with world.serving() as site:
        session_id = await committed(world, site, ("made.txt", "text"))
        _, action = await proposed(world, site, session_id)
        assert (action.status, action.decision.lane) == ("PENDING", "B")
        assert pulls_before(world.app.db.reader, ("OPEN",), None, 9) == []
        shown = describe(site.background._conveyor.intake.card(action))
        assert "medium, leaves its session" in shown
        assert "outside this machine" not in shown
        assert "args:" not in shown, "the rest of it are hashes"
        outcome = await approved(world, site, action)
        assert outcome.result.success, outcome.result
        [pull] = pulls_before(world.app.db.reader, ("OPEN",), None, 9)
        assert (pull.session_id, pull.repository, pull.title) == (session_id, "site", "A change")


@pytest.mark.slow
async def test_program_asks_for_the_pull_request_over_http_and_twice_is_one_question(sessions_of_a_home):
    world = with_fake(sessions_of_a_home())
    async with world.serving() as site:
        session_id = await begin(world, site, "say committed", "type")
        await said(world, site, session_id, "committed")
        pull = f"/runner/v1/sessions/{session_id}/pull"
        assert code(await site.http.post(pull)) == (409, "NOTHING_TO_PUSH")
        session_id = await committed(world, site, ("made.txt", "text"))
        pull = f"/runner/v1/sessions/{session_id}/pull"
        first, again = [(await site.http.post(pull)).json() for _ in range(2)]
        assert first == again
        assert first["status"] == "PENDING"
        action = load_action(world.app.db.reader, first["action_id"])
        assert action.call.tool == "session_push"
        assert (await approved(world, site, action)).result.success
        assert (await site.http.post(pull)).json()["status"] == "EXECUTED"
        [made] = pulls_before(world.app.db.reader, ("OPEN",), None, 9)
        assert made.session_id == session_id
        watch = {"org_id": "self", "session_id": session_id, "access": "watch"}
        token = (await site.http.post("/runner/v1/tokens", json=watch)).json()["token"]
        assert (await bearer(site, token).post(pull)).status_code == 403


@pytest.mark.slow
async def test_viewers_are_told_that_commits_wait_to_leave_and_what_was_answered(sessions_of_a_home):
    world = with_fake(sessions_of_a_home())
    async with world.serving() as site:
        session_id = await committed(world, site, ("package.json", "{}"))
        asked_by_http = (await site.http.post(f"/runner/v1/sessions/{session_id}/pull")).json()["action_id"]
        [asked] = world.events(session_id, "APPROVAL_REQUESTED")
        assert (asked.data["approval_id"], asked.data["category"]) == (asked_by_http, "deps_add")
        assert asked.data["context"]["branch"] == world.row(session_id).checkout.branch
        assert world.events(session_id, "APPROVAL_RESOLVED") == []
        action = load_action(world.app.db.reader, asked_by_http)
        conveyor = site.background._conveyor
        await world.app.approvals(conveyor).reject(action, reason="not today", by="terminal")
        [answered] = await until(lambda: world.events(session_id, "APPROVAL_RESOLVED"))
        assert (answered.data["approved"], answered.data["reason"]) == (False, "not today")
        session_id = await committed(world, site, ("made.txt", "text"))
        call = await push_call(world.app, world.sessions, session_id, "A change")

        also = partial(tell_push, world.app)
        outcome = await run_tool(world.app, call, yes=False, approve=nobody, source="gateway", also=also)
        [asked] = world.events(session_id, "APPROVAL_REQUESTED")
        assert (asked.data["approval_id"], asked.data["category"]) == (outcome.action.action_id, "push")
        assert asked.data["summary"].endswith("A change")
        assert (await approved(world, site, outcome.action)).result.success
        [answered] = await until(lambda: world.events(session_id, "APPROVAL_RESOLVED"))
        assert (answered.data["approved"], answered.data["by"]) == (True, "terminal")


@pytest.mark.slow
async def test_changed_manifest_is_named_and_workflow_needs_proof(sessions_of_a_home):
    world = with_fake(sessions_of_a_home())
    async with world.serving() as site:
        files = ("sub/package.json", "{}"), (".github/workflows/ci.yml", "on: push")
        session_id = await committed(world, site, *files)
        _, action = await proposed(world, site, session_id)
        assert action.decision.lane == "C"
        card = site.background._conveyor.intake.card(action)
        assert "deps_add" in card.preview_or_diff
        assert "sub/package.json" in card.preview_or_diff
        assert ".github/workflows/ci.yml" in card.preview_or_diff


@pytest.mark.parametrize("provider", ["shell", "fake"])
def test_session_with_a_network_may_have_been_misled_whoever_asked(sample, provider):
    world = SessionWorld(sample)
    args = {"session_id": "sess_0123456789", "head": "a" * 40, "diff": "b" * 64, "title": "x"}
    push = PushArgs(**args, files=1, manifests=(), workflows=())
    for mode, misled in (("restricted", False), ("open", True)):
        row = row_of(world, provider=provider, policy={"network": {"mode": mode}})
        told = world.app.tools["session_push"].touches(msgspec.structs.replace(push, session_id=row.session_id)).says
        assert ("may have been misled by untrusted:network" in told) is misled


def test_pull_request_is_as_risky_as_its_newest_commits(sample):
    app = sample().app
    first = PullRequest(
        number=0, repository="site", job_id=None, session_id="sess_0123456789", draft=False, branch="b",
        base_sha="a" * 40, head_sha="b" * 40, title="t", body="", risk="R2", labels=(), taint=(), state="OPEN",
        merged_sha="", action_id=None, checks=(), checked_sha="", rounds=0, wanted="", dormant=False, reason="",
        opened_at="", updated_at="", deployed_at=None,
    )  # fmt: skip
    second = msgspec.structs.replace(first, head_sha="c" * 40, risk="R3")
    kept = [app.db.write_now(lambda tx, it=it: keep_session_pull(tx, app.clock, it)) for it in (first, second)]
    numbers = [each.number for _, each in kept]
    assert numbers[0] == numbers[1]
    assert load_pull(app.db.reader, numbers[0]).risk == "R3"


@pytest.mark.slow
async def test_secret_in_an_earlier_commit_stops_all_of_them(sessions_of_a_home):
    world = with_fake(sessions_of_a_home())
    async with world.serving() as site:
        last = ("run git rm -q key.txt", "run git commit -qm two")
        session_id = await committed(world, site, ("key.txt", SECRET), last=last)
        world.app.redactor.register("KEY", SECRET)  # known only now, so that the program could write it
        with pytest.raises(ToolError) as refused:
            await push_call(world.app, world.sessions, session_id, "")
        assert refused.value.code == "SECRET_LEAVES"


@pytest.mark.slow
async def test_yes_does_not_hold_for_a_later_commit(sessions_of_a_home):
    world = with_fake(sessions_of_a_home())
    async with world.serving() as site:
        session_id = await committed(world, site, ("made.txt", "text"))
        _, action = await proposed(world, site, session_id)
        body = {"data": "run git commit -q --allow-empty -m two\nrun echo ag''ain\n", "mode": "raw"}
        await site.http.post(f"/runner/v1/sessions/{session_id}/input", json=body)
        await said(world, site, session_id, "exit 0 again")
        outcome = await approved(world, site, action)
        assert not outcome.result.success
        assert outcome.result.code == "CHANGED"
        assert pulls_before(world.app.db.reader, ("OPEN",), None, 9) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "lines",
    [
        ("run git add -A", "run git commit -qm one"),
        ("run git update-index --add --cacheinfo 100644,BLOB,src/planted.py", "run git commit -qm one"),
    ],
)
async def test_commits_that_touch_a_forbidden_path_do_not_leave(sessions_of_a_home, lines):
    world = with_fake(sessions_of_a_home())
    blob = git(world.folder, "rev-parse", "HEAD:README.md")
    lines = (*(line.replace("BLOB", blob) for line in lines), "say committed", "type")
    policy = {"shell_allowlist": ["git"], "forbidden_paths": ["src"]}
    async with world.serving() as site:
        session_id = await begin(world, site, *lines, policy=policy)
        assert "exit 1" not in await said(world, site, session_id, "committed")
        with pytest.raises(ToolError) as refused:
            await push_call(world.app, world.sessions, session_id, "")
    assert refused.value.code == "FORBIDDEN_PATH"
