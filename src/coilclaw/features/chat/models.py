"""The model of a conversation: a configured provider that answers there instead of the default one."""

from typing import TYPE_CHECKING

from coilclaw.ledger.audit import add_event
from coilclaw.packets.errors import UsageError
from coilclaw.packets.names import did_you_mean
from coilclaw.store.threads import ensure_thread, set_thread_model, thread_model
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.packets.ports import Provider
    from coilclaw.runtime.runtime import Runtime


class ConversationModels:
    """Who answers in which conversation of one home."""

    def __init__(self, runtime: "Runtime") -> None:
        self._app = runtime

    @property
    def names(self) -> tuple[str, ...]:
        """What can be chosen."""
        return tuple(self._app.config.providers.models)

    def checked(self, name: str) -> str | None:
        """A name as it is kept: None for the default provider; UsageError when there is none of that name."""
        if name not in self.names:
            raise UsageError(f"there is no model {name!r}.", remedy=did_you_mean(name, self.names))
        return None if name == self._app.config.default_provider else name

    def name_of(self, thread_id: str) -> str:
        """Who answers in a conversation."""
        chosen = thread_model(self._app.db.reader, thread_id)
        return chosen if chosen in self.names else self._app.config.default_provider

    def provider_of(self, thread_id: str) -> "Provider | None":
        """The provider that was chosen; None for the default, also where the chosen one is no longer configured."""
        chosen = thread_model(self._app.db.reader, thread_id)
        if chosen is None or chosen == self._app.config.default_provider:
            return None
        if chosen not in self.names:
            self._app.warn(
                f"the model {chosen} of this conversation is no longer configured;"
                f" {self._app.config.default_provider} answers instead."
            )
            return None
        return self._app.provider(chosen)

    async def choose(self, thread_id: str, name: str, channel: str) -> None:
        """Have a conversation answered by another provider from its next answer on; it is made if it is new."""
        chosen = self.checked(name)

        def write(tx: Tx) -> None:
            ensure_thread(tx, self._app.clock, thread_id, channel, "")
            self.keep(tx, thread_id, chosen)

        await self._app.db.write(write)

    def keep(self, tx: Tx, thread_id: str, chosen: str | None) -> None:
        """Write a checked choice down."""
        if set_thread_model(tx, thread_id, chosen):
            add_event(tx, self._app.clock, "thread_model", thread_id, {"model": chosen})
