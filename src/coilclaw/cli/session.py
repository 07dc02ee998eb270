"""Opening a home for a command, and closing it however the command ends."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from coilclaw.app import App
from coilclaw.cli.log import Logger
from coilclaw.config import Home, home_from, load
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import CoilclawError, UsageError


def here() -> Home:
    """The home the environment names."""
    return home_from(os.environ)


@contextmanager
def opened(*, unsafe: bool = False) -> Iterator[App]:
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

    logger = Logger(config.log.level, as_json=config.log.format == "json", redact=redact)
    app = App(home, config, os.environ, logger.say, unsafe=unsafe)
    app.observe("startup", {"version": _version()})
    app.observe("config_path", {"path": str(home.config_file)})
    app.observe("workspace_path", {"path": str(config.workspace_dir)})
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


def _version() -> str:
    from coilclaw import __version__

    return __version__
