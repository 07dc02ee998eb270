"""Logs on stderr: lines for people, or JSON for programs. Nothing is said before the redactor has seen it."""

import sys
from collections.abc import Callable, Mapping

from coilclaw.packets.canonical import Json

LEVELS = {"debug": 0, "info": 1, "warning": 2, "error": 3}
QUIET = ("notify", "deliver", "estop_watch", "forget_expired", "forge_tidy")
"""Chores that need no line: a notice is told as such, that ESTOP holds the work is said by the worker, and nobody asks
after what was tidied up."""

ASKED_FOR = ("COILCLAW_LOG", "COILCLAW_LOG_FORMAT")
"""An owner who sets one of these wants the log itself, at a terminal too."""
ONLY_FOR_WORDS = ("what", "why", "entries", "plan", "remedy")
"""What a finished call tells a person; the log's own line names the call by its tool and code."""


def logger_from(environ: Mapping[str, str]) -> "Logger":
    """A logger for commands that need no configuration: ESTOP must work whatever the configuration says."""

    def redact(value: Json) -> Json:
        from coilclaw.secrets.redactor import Redactor

        return Redactor().value(value)

    as_json = environ.get("COILCLAW_LOG", "").strip().lower() == "json"
    return Logger("info", as_json=as_json, redact=redact, words=wants_words(environ))


def wants_words(environ: Mapping[str, str]) -> bool:
    """Whether a person reads this, who did not ask for the log's own lines."""
    return sys.stderr.isatty() and not any(environ.get(name, "").strip() for name in ASKED_FOR)


class Logger:
    """Says events at or above a level."""

    def __init__(self, level: str, *, as_json: bool, redact: Callable[[Json], Json], words: bool = False) -> None:
        self._level = LEVELS[level]
        self._words = words
        self._as_json = as_json
        self._redact = redact
        self.quiet = False
        """True while something else owns the terminal."""

    def say(self, level: str, event: str, fields: dict[str, Json]) -> None:
        """Write one line, if it matters enough."""
        if event == "worker_chore" and fields.get("chore") in QUIET:
            level = "debug"
        if LEVELS[level] < self._level:
            return
        if self._as_json:
            self._write(self._json_line(level, event, fields))
        elif not (level == "info" and self.quiet):
            line = self._line_in_words(event, fields) if self._words and level == "info" else None
            self._write(self._text_line(level, event, fields) if line is None else line)

    def _json_line(self, level: str, event: str, fields: dict[str, Json]) -> str:
        import msgspec

        from coilclaw.packets.ids import stamp, utc_now

        line = {"time": stamp(utc_now()), "level": level, "event": event, **fields}
        return msgspec.json.encode(self._redact(line)).decode()

    def _line_in_words(self, event: str, fields: dict[str, Json]) -> str | None:
        from coilclaw.cli.event_words import UNTOLD, event_words, further_rows
        from coilclaw.packets.text import one_line

        if event in UNTOLD:
            return ""
        redacted = self._redact(fields)
        line = event_words(event, redacted) if isinstance(redacted, dict) else None
        if line is None or not isinstance(redacted, dict):
            return None
        return "\n".join(one_line(each) for each in (line, *further_rows(event, redacted)))

    def _text_line(self, level: str, event: str, fields: dict[str, Json]) -> str:
        from coilclaw.packets.text import one_line

        words = self._redact(fields)
        assert isinstance(words, dict)  # noqa: S101 - the redactor keeps the shape
        message = words.get("message")
        if event == "tool_unknown":
            tool = words.get("tool")
            message = f"it is unknown whether {tool} took effect: see `coilclaw actions list --status unknown`."
        if event in ("tool_completed", "tool_denied", "tool_failed") and "status" in words:
            from coilclaw.cli.phrases import receipt_word

            event = f"tool_{receipt_word(str(words.pop('status')), str(words.get('code')))}"
            words = {name: value for name, value in words.items() if name not in ONLY_FOR_WORDS}
        if message is None and event.startswith("worker_"):
            from coilclaw.cli.phrases import worker_words

            message = worker_words(event, words)
        if message is None:
            message = " ".join([event.replace("_", " "), *(f"{name}={value}" for name, value in words.items())])
        prefix = "" if level in ("debug", "info") else f"{level}: "
        return f"· {prefix}{one_line(str(message))}"  # what a model or a page wrote must not move the cursor

    def _write(self, line: str) -> None:
        if not line:
            return
        try:
            if self._words:
                from coilclaw.cli.output import broken_between_words, lettered

                line = lettered(broken_between_words(line, sys.stderr, "  "), sys.stderr)
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            pass  # a closed stderr must never stop the work
