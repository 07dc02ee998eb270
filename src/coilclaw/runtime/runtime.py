"""The runtime: one home, opened, with every part of the product built when it is first needed."""

import os
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw import __version__
from coilclaw.config import Config, FileStamp, Home, policy_inputs, secret_variables
from coilclaw.config.environment import ENCRYPTION_KEY_NEW
from coilclaw.gate.measure import Measure, unmeasured
from coilclaw.packets.canonical import Json, canonical_bytes, sha256_hex
from coilclaw.packets.errors import UsageError
from coilclaw.packets.ids import Clock, utc_now
from coilclaw.runtime.extensions import NO_EXTENSIONS, Extensions
from coilclaw.runtime.live_config import LiveConfig

if TYPE_CHECKING:
    from coilclaw.airlock import Airlock, Listing
    from coilclaw.gate.approvals import Approvals
    from coilclaw.gate.background import BackgroundCommands
    from coilclaw.gate.conveyor import Approver, Conveyor
    from coilclaw.gate.decision_input import Policy, UrlFact
    from coilclaw.gate.estop import Estop
    from coilclaw.gate.executor import Executor
    from coilclaw.gate.facts import Counts, Inspector
    from coilclaw.gate.policy_file import LoadedPolicies, PolicyFolder
    from coilclaw.gate.proof import OwnerProof
    from coilclaw.gate.records import Reached
    from coilclaw.gate.root import Root
    from coilclaw.gate.running import RunningCommands
    from coilclaw.gate.turn import Turn
    from coilclaw.ledger.heads import SigningKey
    from coilclaw.ledger.ledger import Ledger
    from coilclaw.packets.http import Principal
    from coilclaw.packets.mail import Mail
    from coilclaw.packets.ports import Box, Provider, Tool, Transport
    from coilclaw.runtime.keyring import Keyring
    from coilclaw.runtime.oauth.accounts import Accounts
    from coilclaw.runtime.roots import Roots
    from coilclaw.secrets.passkey import Place
    from coilclaw.secrets.redactor import Redactor
    from coilclaw.secrets.vault import Vault
    from coilclaw.store.conversation import Conversation
    from coilclaw.store.database import Database
    from coilclaw.store.memory import MemorySearch

Log = Callable[[str, str, dict[str, Json]], None]
"""Reports an event to people and programs: level, event name, fields."""


def _nothing(_: str) -> None:
    """Ignores every boundary."""


class Runtime:
    """One home, opened."""

    def __init__(
        self,
        home: Home,
        config: Config,
        environ: Mapping[str, str],
        say: Log,
        *,
        unsafe: bool = False,
        reached: "Reached" = _nothing,
        extensions: Extensions = NO_EXTENSIONS,
        stamp: FileStamp | None = None,
    ) -> None:
        self.home = home
        self.config = config
        self.environ = environ
        self.clock: Clock = utc_now
        self._say = say
        self._unsafe = unsafe
        self.extensions = extensions
        self.reached = reached
        """Called at every boundary of the conveyor; a test can crash there."""
        self.measure: Measure = unmeasured
        """Receives how long decisions and providers take; a server's metrics subscribe here."""
        self.watchers: list[Callable[[str, dict[str, Json]], None]] = []
        """Called with every ordinary event before it is logged; a terminal's status line listens here."""
        self.listening: int | None = None
        """The port on which the server listens, while it does."""
        self._conveyors: list[Conveyor] = []
        self._tools_version: object = None
        self.kept: dict[str, object] = {}
        """What features keep for as long as this home is open, by their names."""
        self.leaving: list[Callable[[], Awaitable[None]]] = []
        """What must end before the event loop does."""
        self.live = LiveConfig(self, stamp)
        """Keeps `config` in step with config.toml; `stamp` is the state of the file it was read from."""
        self._policy: tuple[LoadedPolicies, Config, Policy] | None = None
        """The rules in force, and what they were made from."""

    def observe(self, event: str, fields: dict[str, Json]) -> None:
        """Report an ordinary event, without secrets."""
        for watcher in self.watchers:
            watcher(event, fields)
        self._say("info", event, fields)

    def announce(self, channel: str) -> None:
        """Report what a long-running or interactive process has started with."""
        self.observe("startup", {"version": __version__})
        self.observe("config_path", {"path": str(self.home.config_file)})
        self.observe("workspace_path", {"path": str(self.config.workspace_dir)})
        self.observe("channel_started", {"channel": channel})

    def warn(self, text: str) -> None:
        """Say something the owner should know."""
        self._say("warning", "warning", {"message": text})

    # Storage and proof

    @cached_property
    def db(self) -> "Database":
        """The database."""
        from coilclaw.ledger.cover import Cover
        from coilclaw.store.database import Database

        db = Database(self.config.memory.path, self.home.locks_dir, waiting=self.warn)
        if db.repaired:
            self.warn(f"The database was made by an earlier version and was repaired; added: {', '.join(db.repaired)}.")
        db.vouch_with(Cover(self.signing_key, self.clock))
        return db

    @cached_property
    def signing_key(self) -> "SigningKey":
        """The key that seals the ledger."""
        from coilclaw.ledger.heads import SigningKey

        return SigningKey(self.home.keys_dir)

    @cached_property
    def ledger(self) -> "Ledger":
        """The ledger."""
        from coilclaw.ledger.ledger import Ledger

        receipts = self.config.receipts
        return Ledger(
            self.db,
            receipts.path,
            self.signing_key,
            clock=self.clock,
            warn=self.warn,
            head_every=receipts.head_every,
            head_seconds=receipts.head_seconds,
            reached=self.reached,
            main=self._main,
        )

    def _main(self) -> str:
        from coilclaw.sandbox.clones import main_of

        return main_of(self.workspace)

    @cached_property
    def memory(self) -> "MemorySearch":
        """Search over past conversations."""
        from coilclaw.store.memory import MemorySearch

        return MemorySearch(self.db, self.clock)

    async def leave(self) -> None:
        """End everything that runs in the background of this process; await it before the event loop ends."""
        if "background" in self.__dict__:
            await self.background.close()
        while self.leaving:
            await self.leaving.pop()()

    def close(self) -> None:
        """Seal the ledger and release everything."""
        for conveyor in self._conveyors:
            conveyor.close()
        if "ledger" in self.__dict__:
            self.ledger.close()
        if "db" in self.__dict__:
            self.db.close()

    # Limits

    @cached_property
    def redactor(self) -> "Redactor":
        """Removes secrets from everything that leaves."""
        from coilclaw.secrets.redactor import Redactor

        named = ((name, self.environ.get(name, "")) for name in (*secret_variables(self.config), ENCRYPTION_KEY_NEW))
        redactor = Redactor((name, value) for name, value in named if value)
        self.keyring.register_stored(redactor)
        return redactor

    @cached_property
    def keyring(self) -> "Keyring":
        """Secrets by the name of their variable."""
        from coilclaw.runtime.keyring import Keyring

        return Keyring(self)

    @cached_property
    def oauth(self) -> "Accounts":
        """Connected accounts, and their access tokens."""
        from coilclaw.runtime.oauth.accounts import Accounts

        return Accounts(self)

    @cached_property
    def vault(self) -> "Vault":
        """Seals and opens what is stored encrypted."""
        from coilclaw.secrets.vault import Vault

        return Vault(self.home.keys_dir, self.environ)

    def redact(self, text: str) -> str:
        """The text without secrets; should redaction itself break, nothing of the text."""
        try:
            return self.redactor.text(text)
        except Exception:  # fail closed: what cannot be redacted is not shown
            return "[withheld: redaction failed]"

    @cached_property
    def estop(self) -> "Estop":
        """The emergency stop."""
        from coilclaw.gate.estop import Estop

        return Estop(self.home.estop_file)

    @cached_property
    def workspace(self) -> Path:
        """The workspace, checked to be a real directory."""
        path = self.config.workspace_dir
        if path.is_symlink():
            raise UsageError(
                f"the workspace {path} is a symbolic link.",
                remedy=f"Set workspace_dir to the directory itself ({os.path.realpath(path)}).",
            )
        if not path.is_dir():
            raise UsageError(f"the workspace {path} does not exist.", remedy="Run `coilclaw init` to create it again.")
        return Path(os.path.realpath(path))

    @property
    def root(self) -> "Root":
        """The workspace as calls work in it."""
        return self.root_of("")

    def root_of(self, thread_id: str) -> "Root":
        """The folder that calls of a conversation work in: its project, or the workspace."""
        return self.roots.of_thread(thread_id)

    def project_root(self, project_id: str) -> "Root":
        """A project as calls work in it; the workspace when it is empty."""
        return self.roots.of_project(project_id)

    @cached_property
    def roots(self) -> "Roots":
        """The folders that calls work in."""
        from coilclaw.runtime.roots import Roots

        return Roots(self)

    @property
    def user_home(self) -> Path:
        """The owner's own home directory, which `~` means."""
        return Path(self.environ.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111

    @cached_property
    def tools(self) -> "dict[str, Tool]":
        """All tools."""
        from coilclaw.runtime.reachable import send_targets
        from coilclaw.runtime.settings import config_writer
        from coilclaw.tools.builtin import builtin_tools

        reach_out = self.extensions.reach_out
        return builtin_tools(
            search_url=self.config.web_search.address(),
            webhooks=send_targets(self.config),
            reach_out=None if reach_out is None else reach_out(self),
            config_writer=config_writer(self),
            more=self.extensions.tools(self),
        )

    @cached_property
    def allowed_tools(self) -> frozenset[str]:
        """The tools a model may be offered: those of the configuration, or all but the runtime's own."""
        from coilclaw.config.schema import EVERY_TOOL
        from coilclaw.gate.callers import is_runtime_only

        listed = frozenset(self.config.channels.cli.tools_allow)
        if EVERY_TOOL in listed:
            mine = (name for name, tool in self.tools.items() if not is_runtime_only(tool))
            return (listed - {EVERY_TOOL}).union(mine)
        self._warn_of_unknown(listed - self.tools.keys(), "channels.cli.tools_allow")
        return listed

    @cached_property
    def offered_tools(self) -> frozenset[str]:
        """The tools that clients of our MCP server may call: those listed, never the runtime's own."""
        from coilclaw.gate.callers import is_runtime_only

        listed = frozenset(self.config.mcp.serve.tools)
        self._warn_of_unknown(listed - self.tools.keys(), "mcp.serve.tools")
        return listed - {name for name, tool in self.tools.items() if is_runtime_only(tool)}

    def _warn_of_unknown(self, names: frozenset[str], key: str) -> None:
        from coilclaw.packets.names import did_you_mean

        for name in sorted(names):  # a warning and no fault: a plugin may bring it
            self.warn(f"{key}: there is no tool {name}. {did_you_mean(name, list(self.tools))}")

    @cached_property
    def listing(self) -> "Listing":
        """Who may reach what."""
        from coilclaw.runtime.reachable import listing_of

        return listing_of(self.config)

    def judge_url(self, url: str, principal: "Principal", narrowing: tuple[tuple[str, ...], ...] = ()) -> "UrlFact":
        """What the airlock thinks of a URL before any look-up; `narrowing` is what a job and skills leave of it."""
        from coilclaw.runtime.reachable import url_fact

        return url_fact(self.config, self.listing, url, principal, narrowing)

    @cached_property
    def transport(self) -> "Transport":
        """The way out for HTTP."""
        return self.airlock

    async def send_mail(self, mail: "Mail") -> int:
        """Hand a message to the configured mail server: its last reply."""
        from coilclaw.airlock.smtp import send_mail

        return await send_mail(self.airlock, mail)

    @cached_property
    def airlock(self) -> "Airlock":
        """The way out; every request leaves a line in the home's logs."""
        from coilclaw.runtime.reachable import open_airlock

        return open_airlock(self, self._say)

    def open_box(self) -> "Box":
        """The best box that holds here."""
        return self._box

    @cached_property
    def _box(self) -> "Box":
        from coilclaw.sandbox.box import open_box

        if self._unsafe:
            self._say("warning", "unsafe_box", {"message": "--unsafe: commands run without a box."})
        hide, owned = self.box_walls()
        return open_box(hide=hide, owned=owned, unsafe=self._unsafe)

    def box_walls(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The paths that no box shows, and those that no mount shows."""
        # A box has an /etc, /sys and /boot of its own or none; what else is forbidden must not be seen at all.
        forbidden = (str(path) for path in self.config.security.forbidden_paths)
        hidden = (str(self.home.root), *(path for path in forbidden if path not in ("/etc", "/sys", "/boot", "/proc")))
        return hidden, (str(self.config.workspace_dir),)

    @cached_property
    def commands(self) -> "RunningCommands":
        """The commands that run in this process now."""
        from coilclaw.gate.running import RunningCommands

        return RunningCommands(self.redactor.stream)

    @cached_property
    def background(self) -> "BackgroundCommands":
        """The commands that run in the background, here and in other processes."""
        from coilclaw.gate.background import BackgroundCommands

        return BackgroundCommands(
            db=lambda: self.db, commands=self.commands, clock=self.clock, folder=self.home.locks_dir, warn=self.warn
        )

    # The gate

    @cached_property
    def owner_proof(self) -> "OwnerProof":
        """What proves the owner."""
        from coilclaw.gate.proof import OwnerProof

        lane_b = lambda: self.config.approvals.lane_b_proof  # noqa: E731
        return OwnerProof(self.db, self.clock, lane_b=lane_b, place=self.passkey_place)

    @property
    def address(self) -> str:
        """The origin of the panel: scheme, name and port, as browsers write it."""
        from coilclaw.runtime.panel_address import panel_origin

        return panel_origin(self.config.server, self.listening)

    @property
    def listen_address(self) -> tuple[str, int]:
        """The host and port the configuration says to listen on."""
        from coilclaw.config.listening import split_address

        return split_address(self.config.server.http_addr)

    def passkey_place(self) -> "Place":
        """Where passkeys belong: the panel's own name, and its origin alone."""
        from coilclaw.runtime.panel_address import passkey_place

        return passkey_place(self.config.server, self.listening)

    def refresh(self) -> None:
        """Notice that config.toml changed, or that features have other tools."""
        self.live.refresh()
        version = self.extensions.tools_version(self)
        if version != self._tools_version:
            self._tools_version = version
            for name in ("tools", "allowed_tools", "_policies"):
                self.__dict__.pop(name, None)

    def policy(self) -> "Policy":
        """The rules in force now; config.toml and policy files are read again as soon as one was touched."""
        self.refresh()
        loaded = self._policies.current()
        made = self._policy
        if made is None or made[0] is not loaded or made[1] is not self.config:
            from coilclaw.runtime.build_gate import build_policy

            made = self._policy = (loaded, self.config, build_policy(self, loaded, self._config_hash))
        return made[2]

    @cached_property
    def _policies(self) -> "PolicyFolder":
        from coilclaw.gate.policy_file import PolicyFolder

        return PolicyFolder(self.workspace / "policies", self.tools)

    @cached_property
    def _config_hash(self) -> str:
        return sha256_hex(canonical_bytes(policy_inputs(self.config)))

    @cached_property
    def inspector(self) -> "Inspector":
        """Gathers the facts of calls."""
        from coilclaw.gate.facts import Inspector
        from coilclaw.store.standing_answers import open_answers

        return Inspector(
            lambda: self.tools,
            self.roots.of_turn,
            self.estop,
            self.judge_url,
            self._count_actions,
            self._conversation,
            self.redactor.registered,
            lambda root, thread_id: open_answers(self.db.reader, self.clock, root, thread_id),
            unsafe=self._unsafe,
        )

    def _conversation(self, thread_id: str, turn_id: str, action_id: str) -> "Conversation":
        from coilclaw.store.conversation import read_conversation

        return read_conversation(self.db.reader, thread_id, turn_id, action_id)

    def _count_actions(self, before: str, turn: "Turn") -> "Counts":
        from coilclaw.runtime.build_gate import counts_before

        return counts_before(self, before, turn)

    def conveyor(self, approve: "Approver", ask_owner: Callable[[str], Awaitable[str]] | None = None) -> "Conveyor":
        """The gate's conveyor, with somebody to ask."""
        from coilclaw.runtime.build_gate import build_conveyor
        from coilclaw.runtime.older_copy import stop_if_older

        if not self._conveyors:
            stop_if_older(self)
        conveyor = build_conveyor(self, approve, ask_owner)
        self._conveyors.append(conveyor)
        return conveyor

    def executor(self, conveyor: "Conveyor") -> "Executor":
        """Carries out approved actions."""
        from coilclaw.gate.executor import Executor

        return Executor(conveyor, self.approvals(conveyor), self.db, self.clock, self.home.locks_dir)

    def approvals(self, conveyor: "Conveyor") -> "Approvals":
        """The owner's side of the queue."""
        from coilclaw.gate.approvals import Approvals

        return Approvals(conveyor, self.db, self.clock)

    # The model

    def provider(self, name: str = "") -> "Provider":
        """A configured provider by name, or the default one."""
        from coilclaw.runtime.metrics import MeasuredProvider
        from coilclaw.runtime.models import Models

        self.refresh()
        models = Models(self.config, self.keyring, lambda: self.transport, self._say)
        return MeasuredProvider(models.provider(name or self.config.default_provider), self)
