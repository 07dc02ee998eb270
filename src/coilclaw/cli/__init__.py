"""The command line: thin commands over the App. Each module is imported only when its command runs."""

import gc
import sys


def main() -> int:
    """Run a command and return its exit code (docs/exit-codes.md)."""
    gc.set_threshold(20_000, 20, 50)  # imports make no cycles, and looking for them costs a tenth of the start
    import click

    from coilclaw.cli.group import coilclaw
    from coilclaw.packets.errors import CoilclawError

    try:
        _check_arguments()
        result = coilclaw.main(standalone_mode=False, prog_name="coilclaw")
    except CoilclawError as error:
        _say_error(error)
        return error.exit_code
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.Abort:
        click.echo("cancelled", err=True)
        return 130
    except click.ClickException as error:
        error.show()
        return 2
    except KeyboardInterrupt:
        click.echo("cancelled", err=True)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    return result if isinstance(result, int) else 0


def _check_arguments() -> None:
    from coilclaw.packets.errors import UsageError

    try:
        "".join(sys.argv).encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError("an argument is not valid UTF-8 text.", remedy="Check the terminal's encoding.") from error


def _say_error(error: Exception) -> None:
    import click

    from coilclaw.packets.errors import CoilclawError, ConfigError

    if isinstance(error, ConfigError) and len(error.problems) > 1:
        click.echo("coilclaw: the configuration does not hold:", err=True)
        for problem in error.problems:
            click.echo(f"  {problem}", err=True)
        if error.remedy:
            click.echo(error.remedy, err=True)
    elif isinstance(error, CoilclawError):
        message = error.message if error.message.endswith((".", "?", "!")) else f"{error.message}."
        click.echo(f"coilclaw: {message} {error.remedy}".rstrip(), err=True)
