"""coilclaw completion."""

import click

from coilclaw.cli.output import tell


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell; load it with eval "$(coilclaw completion bash)"."""
    from click.shell_completion import get_completion_class

    from coilclaw.cli.group import coilclaw

    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 - the choice above lists only shells click knows
    script = found(coilclaw, {}, "coilclaw", "_COILCLAW_COMPLETE").source()
    tell(script.replace("complete --no-files", "complete --keep-order --no-files"))  # in fish the newest stay first
