"""Opening a home for a command, and closing it however the command ends."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from coilclaw.cli.log import Logger, wants_words
from coilclaw.config import Home, home_from, load
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import CoilclawError, UsageError
from coilclaw.runtime import Runtime
from coilclaw.runtime.extensions import Extensions


def here() -> Home:
    """The home the environment names."""
    return home_from(os.environ)


def extensions() -> Extensions:
    """What the features add to a home; named as the commands are, because the wiring stands above this room."""
    return import_module("coilclaw.app").EXTENSIONS


@contextmanager
def opened(*, unsafe: bool = False) -> Iterator[Runtime]:
    """The App of this home; the ledger is sealed and everything given back at the end."""
    home = here()
    if not home.root.is_dir():
        raise UsageError(f"there is no home at {home.root}.", remedy="Run `coilclaw init` first.")
    loaded = load(home, os.environ)
    config = loaded.config

    def redact(value: Json) -> Json:
        try:
            return app.redactor.value(value)
        except Exception:  # fail closed: what cannot be redacted is not said
            return {"message": "[withheld: redaction failed]"}

    logger = Logger(config.log.level, as_json=config.log.format == "json", redact=redact, words=wants_words(os.environ))
    app = Runtime(home, config, os.environ, logger.say, unsafe=unsafe, extensions=extensions(), stamp=loaded.stamp)
    for warning in loaded.warnings:
        app.warn(warning)
    try:
        yield app
    except sqlite3.Error as error:
        from coilclaw.store.database import storage_error

        raise storage_error(error, config.memory.path) from error
    except CoilclawError as error:
        error.message, error.remedy = app.redact(error.message), app.redact(error.remedy)
        raise
    finally:
        app.close()


def thread_of(app: Runtime, thread_id: str | None) -> str:
    """The conversation of that id, which must be there; a new one when none is named."""
    from coilclaw.packets.ids import new_id
    from coilclaw.store.threads import near_thread_ids, thread_exists

    if thread_id is None:
        return new_id("conv", app.clock())
    if not thread_exists(app.db.reader, thread_id):
        from coilclaw.packets.names import did_you_mean

        raise UsageError(
            f"there is no conversation {thread_id!r}.", remedy=did_you_mean(thread_id, near_thread_ids(app.db.reader))
        )
    return thread_id
