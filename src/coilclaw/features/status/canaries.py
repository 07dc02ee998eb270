"""Canaries: for every guard and every way in, a call that must not get through. Fired in a throw-away home.

A guard counts only when it fires on every path. `SITES` names every place in the source where a call can enter; a test
holds it against the source, so that a new way in cannot be forgotten here.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import msgspec

from coilclaw.cli.commands.init import make_home, make_parts, make_workspace
from coilclaw.cli.open_home import extensions
from coilclaw.config import Config, Home, MockModel, Providers, load
from coilclaw.packets.action import Action, ToolCall
from coilclaw.packets.box import Probe
from coilclaw.packets.canonical import Json
from coilclaw.packets.card import nobody
from coilclaw.packets.decision import Autonomy
from coilclaw.packets.errors import CoilclawError, EgressRefused
from coilclaw.runtime import Runtime
from coilclaw.store.tx import Tx

SECRET = "canary-7f3a91c2e5d84b06"  # noqa: S105 - planted on purpose
SECRET_NAME = "COILCLAW_OPENROUTER_API_KEY"  # noqa: S105 - a variable's name

SITES: dict[str, str] = {
    "agent/calls.py:carry": "agent",
    "gate/owner_edit.py:carry_edited": "agent",
    "agent/model.py:_chat": "provider client",
    "features/sops/tool_steps.py:_carry": "sop",
    "features/sops/await_action.py:_carry_out": "sop",
    "runtime/metrics.py:chat": "provider client",
    "runtime/owner_calls.py:make": "gateway",
    "runtime/owner_calls.py:go_on": "gateway",
    "runtime/provider_test.py:try_provider": "provider client",
    # An upload is an owner's call of one fixed tool; what was approved over HTTP is executed as the executor does it.
    "features/chat/uploads.py:_propose": "gateway",
    "features/chat/uploads.py:_go_on": "gateway",
    "features/approvals/prompt_execution.py:carry_out": "executor",
    # The merge question: one fixed tool that no model may call.
    "features/forge/questions.py:put": "gateway",
    "cli/commands/tool.py:run_tool": "tool run",
    "features/approvals/commands/approvals.py:carry_out": "approvals",
    "cli/commands/onboard.py:models_at": "provider client",
    "features/chat/terminal_turns.py:post": "agent",
    "features/status/canaries.py:_ask_provider": "provider client",
    "features/status/canaries.py:_through_approvals": "approvals",
    "gate/approvals.py:repropose": "approvals",
    "gate/executor.py:run_due": "executor",
    "gate/grants.py:fetch": "executor",
    "gate/grants.py:run": "tool run",
    "providers/remote.py:_exchange": "provider client",
    # No call of the agent's: what is sent is fixed, to places that the owner's devices and configuration name, through
    # the airlock that the provider's client is tried with.
    "features/notifications/push.py:send": "provider client",
    "features/notifications/senders.py:send_to_url": "provider client",
    "runtime/phone_probes.py:_asked": "provider client",
    "runtime/oauth/discovery.py:first": "provider client",
    "runtime/oauth/discovery.py:register_client": "provider client",
    "runtime/oauth/token_requests.py:_post": "provider client",
    "features/mail/accounts.py:_profile": "provider client",
    "features/mail/send_as.py:send_as": "provider client",
    "features/forge/github/api.py:_send": "provider client",
    "features/devices/github_sign_in.py:_account": "provider client",
    # Guests are called by their tools alone, which pass the gate like any other.
    "features/guests/mcp_http.py:_visit": "tool run",
    "features/guests/plugin_call.py:call_plugin": "tool run",
    "features/guests/plugin_call.py:start_plugin": "tool run",
    "features/guests/mcp_stdio.py:open": "tool run",
    # Questions of a session's program pass the same conveyor; a yes is only leave to go on, in its box. What its model
    # is asked is written anew from known fields and goes through the same airlock.
    "features/runner/hooks.py:_through_gate": "gateway",
    "features/runner/hooks.py:carry": "gateway",
    "features/runner/session_mcp.py:_waited": "gateway",
    "features/runner/hooks.py:_answered": "executor",
    "features/runner/model_proxy.py:_call": "provider client",
    # The agent that works on itself makes no calls of ours: its box and its model are given to it, as to a session.
    "features/evolve/launch.py:launched": "tool run",
    "features/evolve/probes.py:_tried": "tool run",
    "features/evolve/model.py:_call": "provider client",
}
"""Where a call, a model's answer or a request enters, and which path tries it."""


class Shot(msgspec.Struct, frozen=True, kw_only=True):
    """A call that must end a certain way."""

    tool: str
    args: dict[str, Json]
    code: str = ""
    """The code it must be denied with; empty means that only its absence of effect is looked at."""


class Range:
    """A throw-away home to fire in."""

    def __init__(self, folder: Path, *, autonomy: Autonomy = "full", stopped: bool = False) -> None:
        self.home = Home(folder / "home")
        self.environ = {"HOME": str(folder), SECRET_NAME: SECRET, "PATH": "/usr/bin:/bin"}
        make_home(self.home)
        config = load(self.home, self.environ).config
        make_parts(self.home, config)
        make_workspace(self.home, config.workspace_dir)
        (config.workspace_dir / "leak.txt").write_text(f"the key is {SECRET}\n")
        security = msgspec.structs.replace(config.security, autonomy=autonomy)
        self.config: Config = msgspec.structs.replace(config, security=security)
        self.app = Runtime(self.home, self.config, self.environ, _silent, extensions=extensions())
        self.workspace = config.workspace_dir
        if stopped:
            self.app.estop.engage("canary", "now")

    def script(self, shot: Shot) -> None:
        """Have the model propose the shot and then repeat what came of it."""
        path = self.home.root / "canary.json"
        call = {"tool": shot.tool, "args": shot.args}
        path.write_text(json.dumps([{"tool_calls": [call]}, {"text": "{last_tool_result}"}]))
        models = {"canary": MockModel(script=path)}
        self.app.config = msgspec.structs.replace(
            self.config, default_provider="canary", providers=Providers(models={**models})
        )

    def last(self) -> tuple[str, str]:
        """Status and code of the newest receipt."""
        from coilclaw.ledger.chain import list_receipts

        newest = list_receipts(self.app.db.reader, 1)
        return (newest[0].status, newest[0].code) if newest else ("none", "none")


def _silent(level: str, event: str, fields: dict[str, Json]) -> None:
    """Nobody watches a canary."""


Way: TypeAlias = Callable[[Range, Shot], Awaitable[str]]
"""Sends a shot in by one path and returns whatever text came back to whoever asked."""


async def _through_agent(field: Range, shot: Shot) -> str:
    from coilclaw.features.chat.agent import agent_of
    from coilclaw.features.chat.post_message import post

    field.script(shot)
    reply = await post(agent_of(field.app, field.app.conveyor(nobody)), field.app, "conv_canary", "go", None)
    return reply.text


async def _through_repl(field: Range, shot: Shot) -> str:
    from coilclaw.features.chat.repl import Repl

    field.script(shot)
    shown: list[str] = []
    await Repl(field.app, "conv_canary", assume_yes=True, approve=nobody).turn("go", shown.append)
    return "".join(shown)


async def _through_tool_run(field: Range, shot: Shot) -> str:
    from coilclaw.cli.commands.tool import run_tool

    return (await run_tool(field.app, ToolCall.of(shot.tool, shot.args), yes=False, approve=nobody)).result.output


async def _through_approvals(field: Range, shot: Shot) -> str:
    from coilclaw.gate.turn import Turn
    from coilclaw.packets.action import ToolCall

    conveyor = field.app.conveyor(nobody)
    action = conveyor.intake.propose(ToolCall.of(shot.tool, shot.args), Turn("turn_canary", "", "chat"), "canary")
    outcome = await conveyor.carry(action, Turn("turn_canary", "", "chat"), stored=False)
    if outcome.pending and shot != SHOTS["approval"]:
        approved = await field.app.approvals(conveyor).approve(outcome.action, by="canary", digest=action.digest)
        later = await conveyor.execute(approved) if isinstance(approved, Action) else approved
        return later.result.output if later is not None else ""
    return outcome.result.output


async def _through_executor(field: Range, shot: Shot) -> str:
    """Rows that claim to be approved: the executor must hold every guard by itself."""
    from coilclaw.gate.turn import Turn
    from coilclaw.packets.action import ToolCall
    from coilclaw.store.actions import approve_action, let_go, list_actions, result_of

    conveyor = field.app.conveyor(nobody)
    action = conveyor.intake.propose(ToolCall.of(shot.tool, shot.args), Turn("turn_canary", "", "chat"), "canary")

    def approved(tx: Tx) -> None:
        conveyor.records.store(tx, action)
        let_go(tx, action.action_id, action.digest)
        if shot != SHOTS["approval"]:  # whose very point is that the owner's word is not there
            approve_action(tx, field.app.clock, action, "canary")

    await field.app.db.write(approved)
    await field.app.executor(conveyor).run_due()
    result = result_of(field.app.db.reader, list_actions(field.app.db.reader, None, 1)[0].action_id)
    return result.output if result is not None else ""


async def _through_job(field: Range, shot: Shot) -> str:
    """The same proposal by a job in the background."""
    from coilclaw.features.jobs.background import Background
    from coilclaw.features.jobs.job_requests import Request
    from coilclaw.store.threads import recent_messages

    field.script(shot)
    background = Background(field.app)
    await background.desk().create(Request(goal="go", thread_id="conv_canary", channel="cli"))
    with background.named() as name:
        await background.worker(name, slots=1).drain(asyncio.Event())
    return "\n".join(row.content for row in recent_messages(field.app.db.reader, "conv_canary", 100))


async def _through_sop(field: Range, shot: Shot) -> str:
    """The same call as a step of a procedure, past the check of its file."""
    from coilclaw.features.sops.procedures import Procedures
    from coilclaw.features.sops.run import Beginning
    from coilclaw.features.sops.sop import Sop, Step
    from coilclaw.store.sops import steps_of_run

    step = Step(id="shot", kind="tool", tool=shot.tool, args=shot.args)
    procedures = Procedures(field.app)
    begun = await procedures.begin(
        Beginning(
            sop=Sop(name="canary", steps=(step,)), file_hash="", labels=(), thread_id="conv_canary", channel="cli"
        )
    )
    await procedures.go_on(begun.run_id)
    return "\n".join(row.output for row in steps_of_run(field.app.db.reader, begun.run_id).values())


async def _through_gateway(field: Range, shot: Shot) -> str:
    """The same call as a paired device's own, which approves it by asking for it."""
    from coilclaw.packets.action import ToolCall
    from coilclaw.runtime.owner_calls import OwnerCalls
    from coilclaw.store.actions import result_of

    calls = OwnerCalls(field.app, field.app.conveyor(nobody))
    call = ToolCall.of(shot.tool, shot.args)
    made = await calls.make(call, by="device:canary", key=None, at_once=shot != SHOTS["approval"])
    result = result_of(field.app.db.reader, made.action_id)
    return result.output if result is not None else ""


async def _through_mcp(field: Range, shot: Shot) -> str:
    """The same call by a client of our MCP server that is offered every tool."""
    from coilclaw.features.mcp_server.rpc import read_message
    from coilclaw.features.mcp_server.session import McpSession
    from coilclaw.features.mcp_server.slots import Slots

    serve = msgspec.structs.replace(field.config.mcp.serve, tools=tuple(each.tool for each in SHOTS.values()))
    field.app.config = msgspec.structs.replace(field.config, mcp=msgspec.structs.replace(field.config.mcp, serve=serve))
    session = McpSession(field.app, field.app.conveyor(nobody), Slots())
    asked = {"initialize": {"protocolVersion": ""}, "tools/call": {"name": shot.tool, "arguments": shot.args}}
    answers: list[bytes | None] = []
    for method, params in asked.items():
        message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        answers.append(await session.answer(read_message(message.encode())))
    return (answers[-1] or b"").decode()


PATHS: dict[str, Way] = {
    "agent": _through_agent,
    "repl": _through_repl,
    "tool run": _through_tool_run,
    "approvals": _through_approvals,
    "executor": _through_executor,
    "job worker": _through_job,
    "sop": _through_sop,
    "gateway": _through_gateway,
    "mcp": _through_mcp,
}

SHOTS: dict[str, Shot] = {
    "estop": Shot(tool="time", args={}, code="ESTOP"),
    "schema": Shot(tool="file_read", args={"pth": "x"}, code="ARGS_INVALID"),
    "workspace boundary": Shot(tool="file_read", args={"path": "../../x"}, code="PATH_OUTSIDE_WORKSPACE"),
    "forbidden paths": Shot(tool="file_read", args={"path": "/etc/passwd"}, code="PATH_FORBIDDEN"),
    "runtime files": Shot(tool="file_write", args={"path": ".git/hooks/x", "content": "x"}, code="PATH_PROTECTED"),
    "destructive commands": Shot(tool="shell", args={"command": "rm -rf /"}, code="COMMAND_DESTRUCTIVE"),
    "forbidden commands": Shot(tool="shell", args={"command": "env dd --version"}, code="COMMAND_FORBIDDEN"),
    "airlock": Shot(tool="http", args={"url": "http://169.254.169.254/latest"}, code="*"),
    "airlock for pages": Shot(tool="web_open", args={"url": "https://localhost/x"}, code="*"),
    "secret arguments": Shot(tool="file_write", args={"path": "x", "content": SECRET}, code="SECRET_NOT_GRANTED"),
    "approval": Shot(tool="file_write", args={"path": "canary.txt", "content": "x"}),
    "redaction": Shot(tool="file_read", args={"path": "leak.txt"}),
    "box": Shot(tool="shell", args={"command": "cat ../home/config.toml /proc/1/environ > seen.txt 2>&1; ls"}),
}


async def fire(folder: Path) -> list[Probe]:
    """Fire every canary on every path; a probe fails where one got through."""
    probes: list[Probe] = []
    for number, (guard, shot) in enumerate(SHOTS.items()):
        for path, way in PATHS.items():
            field = Range(
                folder / f"{number}-{path.replace(' ', '-')}",
                autonomy="supervised" if guard == "approval" else "full",
                stopped=guard == "estop",
            )
            try:
                fault = await _one(field, guard, shot, way)
            finally:
                field.app.close()
            probes.append(_probe(guard, path, fault))
    probes += [_probe(guard, "provider client", fault) for guard, fault in await _provider_faults(folder / "provider")]
    return probes


def _probe(guard: str, path: str, fault: str) -> Probe:
    return Probe(
        name=f"canary {guard} via {path}",
        state="fail" if fault else "ok",
        detail=fault or "held",
        remedy="Do not run the agent; report this." if fault else "",
    )


async def _one(field: Range, guard: str, shot: Shot, way: Way) -> str:
    """Fire one shot; what got through, or nothing."""
    text = ""
    with suppress(CoilclawError):
        text = await way(field, shot)
    if SECRET in text:
        return "the planted secret came back"
    status, code = field.last()
    if guard == "estop" and status == "none":
        return ""  # what waits is held, not rejected; a job is not even begun
    if shot.code:
        if status != "denied":
            return f"it was not denied but {status} ({code})"
        return "" if shot.code in ("*", code) else f"it was denied for another reason ({code})"
    if guard == "approval":
        return "it ran without approval" if (field.workspace / "canary.txt").exists() else ""
    if guard == "redaction":
        return "" if status == "allowed" else f"the file could not be read ({code})"
    seen = field.workspace / "seen.txt"
    if seen.exists() and "[security]" in seen.read_text(errors="replace"):
        return "a command saw the home"
    return ""


async def _ask_provider(field: Range, url: str) -> str:
    from coilclaw.packets.http import HttpRequest

    try:
        await field.app.transport.send(HttpRequest(principal="provider", method="POST", url=url))
    except EgressRefused:
        return ""
    except CoilclawError as error:
        return f"the request was tried ({error.message})"
    return "the request went out"


async def _provider_faults(folder: Path) -> list[tuple[str, str]]:
    """The provider's client must reach its configured place and no other."""
    field = Range(folder)
    try:
        faults = [
            ("airlock", await _ask_provider(field, "https://other.example/v1/chat/completions")),
            ("airlock for addresses", await _ask_provider(field, "http://169.254.169.254/v1")),
            ("own port", await _ask_provider(field, f"http://{field.config.server.http_addr}/v1")),
        ]
        shown = field.app.redactor.text(f"Authorization: Bearer {SECRET}")
        faults.append(("redaction", "the key came back" if SECRET in shown else ""))
    finally:
        field.app.close()
    return faults


def run_canaries() -> list[Probe]:
    """Fire them all in a temporary folder."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="coilclaw-canaries-") as folder:
        Path(folder).chmod(0o755)
        return asyncio.run(fire(Path(folder)))
