"""An App: one home, opened, with every part of the product built when it is first needed."""

import os
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coilclaw.config import Config, Home, policy_inputs, secret_variables
from coilclaw.config.environment import ENCRYPTION_KEY_NEW
from coilclaw.gate.measure import Measure, unmeasured
from coilclaw.packets.canonical import Json, canonical_bytes, sha256_hex
from coilclaw.packets.errors import UsageError
from coilclaw.packets.ids import Clock, stamp, utc_now

if TYPE_CHECKING:
    from coilclaw.agent.loop import Agent
    from coilclaw.app.keyring import Keyring
    from coilclaw.gate.approvals import Approvals
    from coilclaw.gate.case import Policy, ToolFact, UrlFact
    from coilclaw.gate.conveyor import Approver, Conveyor
    from coilclaw.gate.estop import Estop
    from coilclaw.gate.executor import Executor
    from coilclaw.gate.facts import Counts, Inspector
    from coilclaw.gate.labels import FileLabels
    from coilclaw.gate.paths import Places
    from coilclaw.gate.policy_file import PolicyFolder
    from coilclaw.gate.proof import OwnerProof
    from coilclaw.gate.records import Reached
    from coilclaw.ledger.heads import SigningKey
    from coilclaw.ledger.ledger import Ledger
    from coilclaw.packets.http import Principal, SendTarget
    from coilclaw.packets.ports import Box, Provider, Tool, Transport
    from coilclaw.sandbox.airlock import Listing
    from coilclaw.sandbox.snapshot import Snapshots
    from coilclaw.secrets.passkey import Place
    from coilclaw.secrets.redactor import Redactor
    from coilclaw.secrets.vault import Vault
    from coilclaw.store.database import Database
    from coilclaw.store.memory import MemorySearch

Say = Callable[[str, str, dict[str, Json]], None]
"""Says an event to the people and programs that watch: level, event name, fields."""


def _nothing(_: str) -> None:
    """Boundaries go by unnoticed."""


class App:
    """One home, opened."""

    def __init__(
        self,
        home: Home,
        config: Config,
        environ: Mapping[str, str],
        say: Say,
        *,
        unsafe: bool = False,
        reached: "Reached" = _nothing,
    ) -> None:
        self.home = home
        self.config = config
        self.environ = environ
        self.clock: Clock = utc_now
        self._say = say
        self._unsafe = unsafe
        self.reached = reached
        """Told of every boundary the conveyor reaches; a test can make it the last one."""
        self.measure: Measure = unmeasured
        """Told how long decisions and providers take; a server's meters listen here."""
        self.listening: int | None = None
        """The port the server took, while it listens."""
        self._conveyors: list[Conveyor] = []

    def observe(self, event: str, fields: dict[str, Json]) -> None:
        """Say an ordinary event, without secrets."""
        level = "info" if event.startswith(("tool_", "approval_", "message_", "job_", "worker_")) else "debug"
        self._say(level, event, fields)

    def warn(self, text: str) -> None:
        """Say something the owner should know."""
        self._say("warning", "warning", {"message": text})

    # Storage and proof

    @cached_property
    def db(self) -> "Database":
        """The database."""
        from coilclaw.store.database import Database

        return Database(self.config.memory.path, self.home.locks_dir)

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
        )

    @cached_property
    def memory(self) -> "MemorySearch":
        """Search over past conversations."""
        from coilclaw.store.memory import MemorySearch

        return MemorySearch(self.db.reader, self.clock)

    def close(self) -> None:
        """Seal the ledger and give everything back."""
        for conveyor in self._conveyors:
            conveyor.close()
        if "ledger" in self.__dict__:
            self.ledger.close()
        if "db" in self.__dict__:
            self.db.close()

    # Limits

    @cached_property
    def redactor(self) -> "Redactor":
        """Takes secrets out of everything that leaves."""
        from coilclaw.secrets.redactor import Redactor

        named = ((name, self.environ.get(name, "")) for name in (*secret_variables(self.config), ENCRYPTION_KEY_NEW))
        redactor = Redactor((name, value) for name, value in named if value)
        self.keyring.register_stored(redactor)
        return redactor

    @cached_property
    def keyring(self) -> "Keyring":
        """Secrets by the name of their variable."""
        from coilclaw.app.keyring import Keyring

        return Keyring(self)

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
            raise UsageError(f"the workspace {path} is not there.", remedy="Run `coilclaw init` to make it again.")
        return Path(os.path.realpath(path))

    @cached_property
    def places(self) -> "Places":
        """What every path is held against."""
        from coilclaw.gate.paths import Places

        forbidden = tuple(str(path) for path in self.config.security.forbidden_paths)
        user_home = Path(self.environ.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111
        return Places.of(self.workspace, self.home.root, user_home, forbidden)

    @cached_property
    def tools(self) -> "dict[str, Tool]":
        """Every tool there is."""
        from coilclaw.app.notices import reach_out_of
        from coilclaw.tools.builtin import builtin_tools

        return builtin_tools(
            search_url=self.config.web_search.address(), webhooks=self._send_targets(), reach_out=reach_out_of(self)
        )

    def _send_targets(self) -> "dict[str, SendTarget]":
        from coilclaw.packets.http import SendTarget

        return {
            name: SendTarget(
                name=name,
                url=hook.url,
                key_header=hook.key_header,
                deduplicates=hook.deduplicates,
                lookup_url=hook.lookup_url,
                timeout_seconds=hook.timeout_seconds,
            )
            for name, hook in self.config.webhooks.items()
        }

    @cached_property
    def listing(self) -> "Listing":
        """Who may reach what."""
        from coilclaw.config import OpenAIModel
        from coilclaw.sandbox.airlock import Listing

        models = self.config.providers.models.values()
        port = self.config.server.http_addr.rpartition(":")[2]
        return Listing.build(
            providers=[model.base_url for model in models if isinstance(model, OpenAIModel)],
            searches=[url] if (url := self.config.web_search.address()) else [],
            webhooks=[url for hook in self.config.webhooks.values() for url in (hook.url, hook.lookup_url) if url],
            allowed_domains=self.config.security.allowed_domains,
            own_ports=[int(port)],
        )

    def judge_url(self, url: str, principal: "Principal", narrowing: tuple[str, ...] | None = None) -> "UrlFact":
        """What the airlock thinks of a URL before any look-up; `narrowing` is what a job leaves of it."""
        from coilclaw.gate.case import UrlFact
        from coilclaw.sandbox.airlock import Target, judge_url

        judged = judge_url(url, principal, self.listing.narrowed(narrowing))
        if isinstance(judged, Target):
            return UrlFact(host=judged.host, code="", reason="", listed=self.listing.domains.admits(judged))
        return UrlFact(host="", code=judged.code, reason=judged.reason.rstrip(".") + ".")

    @cached_property
    def transport(self) -> "Transport":
        """The way out."""
        from coilclaw.sandbox.airlock.log import EgressLine, line_json
        from coilclaw.sandbox.airlock.transport import Airlock

        def note(line: EgressLine) -> None:
            fields: dict[str, Json] = msgspec.to_builtins(line)
            self._say("debug", "egress", fields)
            self._keep_egress(line_json(line))

        return Airlock(self.listing, log=note, clock=self.clock)

    def _keep_egress(self, line: bytes) -> None:
        """Every request leaves a line in the home's logs."""
        try:
            fd = os.open(
                self.home.logs_dir / "airlock.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
            )
            try:
                os.write(fd, line.rstrip(b"\n") + b"\n")
            finally:
                os.close(fd)
        except OSError as error:
            self.warn(f"the airlock's log cannot be written ({error.strerror}).")

    def open_box(self) -> "Box":
        """The best box that holds here."""
        return self._box

    @cached_property
    def _box(self) -> "Box":
        from coilclaw.sandbox.box import open_box

        # A box has an /etc, /sys and /boot of its own or none; what else is forbidden must not be seen at all.
        forbidden = (str(path) for path in self.config.security.forbidden_paths)
        hidden = (str(self.home.root), *(path for path in forbidden if path not in ("/etc", "/sys", "/boot", "/proc")))
        if self._unsafe:
            self._say("warning", "unsafe_box", {"message": "--unsafe: commands run without a box."})
        return open_box(hide=hidden, unsafe=self._unsafe)

    # The gate

    @cached_property
    def owner_proof(self) -> "OwnerProof":
        """What proves the owner."""
        from coilclaw.gate.proof import OwnerProof

        return OwnerProof(self.db, self.clock, lane_b=self.config.approvals.lane_b_proof, place=self.passkey_place)

    @property
    def address(self) -> str:
        """The origin of the panel: scheme, name and port, as browsers write it."""
        from coilclaw.app.address import panel_origin

        return panel_origin(self.config.server, self.listening)

    def passkey_place(self) -> "Place":
        """Where passkeys belong: the panel's own name, and its origin alone."""
        from coilclaw.app.address import passkey_place

        return passkey_place(self.config.server, self.listening)

    def policy(self) -> "Policy":
        """The rules in force now; policy files are read again as soon as one was touched."""
        from coilclaw.gate.case import Policy
        from coilclaw.tools.approval import RUNTIME_TOOLS

        loaded = self._policies.current()
        security = self.config.security
        return Policy(
            autonomy=security.autonomy,
            workspace_only=security.workspace_only,
            allowed_commands=self._allowed_commands,
            forbidden_commands=self._forbidden_commands,
            allowlists=(("channels.cli.tools_allow", self._cli_tools | RUNTIME_TOOLS),),
            calls_per_minute=self.config.budgets.tool_calls_per_minute,
            open_proposals=self.config.budgets.open_proposals,
            prs_per_day=self.config.budgets.prs_per_day,
            rules=loaded.rules,
            broken=loaded.broken,
            hash=sha256_hex(f"{self._config_hash}:{loaded.hash}:{loaded.broken}".encode()),
        )

    @cached_property
    def _policies(self) -> "PolicyFolder":
        from coilclaw.gate.policy_file import PolicyFolder

        return PolicyFolder(self.workspace / "policies")

    @cached_property
    def _config_hash(self) -> str:
        return sha256_hex(canonical_bytes(policy_inputs(self.config)))

    @cached_property
    def _allowed_commands(self) -> frozenset[str]:
        return frozenset(self.config.security.allowed_commands)

    @cached_property
    def _forbidden_commands(self) -> frozenset[str]:
        return frozenset(self.config.security.forbidden_commands)

    @cached_property
    def _cli_tools(self) -> frozenset[str]:
        return frozenset(self.config.channels.cli.tools_allow)

    @cached_property
    def snapshots(self) -> "Snapshots":
        """The workspace as it was, for undo."""
        from coilclaw.sandbox.snapshot import Snapshots

        return Snapshots(self.workspace, self.home.root / "snapshots", self.clock, self.warn)

    @cached_property
    def inspector(self) -> "Inspector":
        """Gathers the facts of calls."""
        from coilclaw.gate.facts import Inspector

        return Inspector(
            self.tools,
            self.places,
            self.estop,
            self.judge_url,
            self._count_actions,
            lambda: self.file_labels,
            self.redactor.registered,
            unsafe=self._unsafe,
        )

    @cached_property
    def file_labels(self) -> "FileLabels":
        """Which workspace files hold untrusted content."""
        from coilclaw.gate.labels import FileLabels

        return FileLabels(self.db, self.workspace, self.clock)

    def _count_actions(self, before: str, tool: "ToolFact | None") -> "Counts":
        from coilclaw.gate.case import background_share
        from coilclaw.gate.facts import Counts
        from coilclaw.store.actions import count_actions, executed_since

        exact_from = background_share(self.config.budgets.tool_calls_per_minute)
        recent, waiting = count_actions(self.db.reader, self.clock, before, exact_from)
        prs = 0
        if tool is not None and tool.opens_pr:
            prs = executed_since(self.db.reader, tool.name, stamp(self.clock() - timedelta(days=1)), None)
        return Counts(recent=recent, waiting=waiting, prs_today=prs)

    def conveyor(self, approve: "Approver", ask_owner: Callable[[str], Awaitable[str]] | None = None) -> "Conveyor":
        """The gate's conveyor, with somebody to ask."""
        from coilclaw.app.assembly import build_conveyor
        from coilclaw.app.older_copy import stop_if_older

        if not self._conveyors:
            stop_if_older(self)
        conveyor = build_conveyor(self, approve, ask_owner)
        self._conveyors.append(conveyor)
        return conveyor

    def executor(self, conveyor: "Conveyor") -> "Executor":
        """Carries out what was approved."""
        from coilclaw.gate.executor import Executor

        return Executor(conveyor, self.approvals(conveyor), self.db, self.clock, self.home.locks_dir)

    def approvals(self, conveyor: "Conveyor") -> "Approvals":
        """The owner's side of the queue."""
        from coilclaw.gate.approvals import Approvals

        return Approvals(conveyor, self.db, self.clock)

    # The model

    def provider(self, name: str = "") -> "Provider":
        """A configured provider by name, or the default one."""
        from coilclaw.app.measured import MeasuredProvider
        from coilclaw.app.models import Models

        models = Models(self.config, self.keyring, lambda: self.transport, self._say)
        return MeasuredProvider(models.provider(name or self.config.default_provider), self)

    def agent(self, conveyor: "Conveyor") -> "Agent":
        """The turn loop over a conveyor."""
        from coilclaw.agent.loop import Agent, LoopLimits
        from coilclaw.app.offered import offered_tools
        from coilclaw.providers.structured import read_structured

        provider = self.provider()
        self.observe("provider_selected", {"provider": provider.name})
        bounds = self.config.agent
        return Agent(
            db=self.db,
            conveyor=conveyor,
            provider=provider,
            model=self.config.default_model,
            fallback_model=self.config.fallback_model,
            tools=offered_tools(self, self._cli_tools),
            owner_prompt=self.owner_prompt,
            read_proposal=read_structured,
            estop=self.estop,
            clock=self.clock,
            limits=LoopLimits(
                max_tool_rounds=bounds.max_tool_rounds,
                turn_token_budget=bounds.turn_token_budget,
                max_message_bytes=bounds.max_message_bytes,
                recent_messages=self.config.memory.recent_messages,
                daily_tokens=self.config.budgets.daily_tokens,
            ),
            observe=self.observe,
            redact=self.redact,
            seal=self.redactor.registered,
        )

    def owner_prompt(self) -> str:
        """The owner's SYSTEM.md, or nothing."""
        from coilclaw.sandbox.files import read_existing

        data = read_existing(self.workspace, "SYSTEM.md", 256 * 1024)
        if data is None:
            if os.path.lexists(self.workspace / "SYSTEM.md"):
                self.warn("SYSTEM.md is no plain file of at most 256 KB; going on without it.")
            return ""
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            self.warn("SYSTEM.md is not UTF-8 text; going on without it.")
            return ""
