"""The command line: thin commands over the App. Each module is imported only when its command runs."""

import gc
import os
import sys


def main() -> int:
    """Run a command and return its exit code (docs/exit-codes.md)."""
    gc.set_threshold(100_000, 20, 50)  # imports make no cycles, and looking for them costs a tenth of the start
    _open_streams()
    try:
        return _command()
    except Exception as error:  # a bug of ours: no traceback, because its text has not been redacted
        if os.environ.get("COILCLAW_DEBUG"):
            raise
        sys.stderr.write(f"coilclaw: an unexpected {type(error).__name__}. This is a bug: please report it.")
        sys.stderr.write(" COILCLAW_DEBUG=1 shows where it happened.\n")
        return 1
    finally:
        gc.freeze()  # leaving need not look for cycles once more


def _command() -> int:
    import click

    from coilclaw.packets.errors import CoilclawError

    try:
        result = _run()
        sys.stdout.flush()
    except CoilclawError as error:
        _say_error(error)
        return error.exit_code
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("cancelled", err=True)
        return 130
    except click.ClickException as error:
        error.show()
        return 2
    except BrokenPipeError:
        _forget_output()
        return 0
    except OSError as error:
        _forget_output()
        from coilclaw.cli.output import tell

        tell(f"coilclaw: {error.filename or 'the output'} cannot be read or written: {error.strerror}.", err=True)
        return 7
    return result


def _run() -> int:
    from coilclaw.cli.group import coilclaw
    from coilclaw.packets.errors import UsageError

    try:
        "".join(sys.argv).encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError("an argument is not valid UTF-8 text.", remedy="Check the terminal's encoding.") from error
    result = coilclaw.main(standalone_mode=False, prog_name="coilclaw")
    return result if isinstance(result, int) else 0


def _open_streams() -> None:
    """Whoever starts us with a closed stream gets /dev/null there: no file of ours may land on its descriptor."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            fd = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(fd, "r" if name == "stdin" else "w"))


def _forget_output() -> None:
    """What could not be written is given up, so that leaving does not try again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())


def _say_error(error: Exception) -> None:
    from coilclaw.cli.output import print_wrapped
    from coilclaw.packets.errors import CoilclawError, ConfigError
    from coilclaw.packets.text import one_line

    if isinstance(error, ConfigError) and len(error.problems) > 1:
        print_wrapped("coilclaw: the configuration is invalid:", err=True)
        for problem in error.problems:
            print_wrapped(f"  {problem}", err=True, indent="    ")
        if error.remedy:
            print_wrapped(error.remedy, err=True)
    elif isinstance(error, CoilclawError):
        message = error.message if error.message.endswith((".", "?", "!")) else f"{error.message}."
        print_wrapped(f"coilclaw: {one_line(message)} {error.remedy}".rstrip(), err=True)
