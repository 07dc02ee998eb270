"""The rules for commands: one sentence each, their code, and what to write instead."""

from functools import cache

from coilclaw.packets.decision import Reason

RULES: dict[str, str] = {
    "command.destructive.remove-root": "It would remove the root, a system directory, a top-level directory or a home.",
    "command.destructive.remove-all": "It would remove everything in a directory without naming it.",
    "command.destructive.filesystem": "It would make a new filesystem or swap area over existing data.",
    "command.destructive.dd": "It copies raw blocks with dd, which overwrites whatever it is pointed at.",
    "command.destructive.fork-bomb": "A function starts copies of itself without end.",
    "command.destructive.power": "It would shut down, halt or reboot the machine.",
    "command.destructive.permissions": "It would change permissions of a root, system or home directory recursively.",
    "command.destructive.ownership": "It would change the owner of a whole tree.",
    "command.destructive.download-run": "An interpreter would run downloaded content.",
    "command.destructive.device": "It would write to, wipe or discard a block device or kernel memory.",
    "command.destructive.system-file": "It would write over or remove a file of the operating system.",
    "command.destructive.find-delete": "It would delete everything found under a root, system or home directory.",
    "command.destructive.kill-all": "It would signal every process that can be reached.",
    "command.opaque.name": "The program is only known when it runs: its name is computed.",
    "command.opaque.argument": "An argument only known when it runs could be an option that executes something.",
    "command.opaque.target": "What would be written or removed is only known when it runs.",
    "command.opaque.directory": "It writes relative to a directory that is only known when it runs.",
    "command.opaque.text": "It runs shell text that is only known when it runs.",
    "command.opaque.stdin": "A shell runs its standard input, which is only known when it runs.",
    "command.opaque.source": "A file's contents would be run inside this shell.",
    "command.opaque.written": "It runs a file that the same command writes.",
    "command.opaque.alias": "An alias changes what later words mean.",
    "command.opaque.assignment": "A variable is set that makes other programs execute something.",
    "command.opaque.delayed": "Text with a command substitution in it is kept to be expanded later.",
    "command.opaque.expansion": "An expansion evaluates its value a second time.",
    "command.opaque.index": "A command hides in an array index or an arithmetic expression.",
    "command.opaque.builtin": "A shell builtin is used in a way that changes what commands mean.",
    "command.opaque.glob": "A pattern could match an option or a protected path.",
    "command.opaque.impostor": "A local file is run under the name of a well-known program.",
    "command.opaque.network": "The shell itself would open a network connection.",
    "command.opaque.characters": "It contains control characters or spaces that look like something else.",
    "command.opaque.heredoc": "A here-document cannot be told apart from the commands around it.",
    "command.opaque.construct": "It uses shell grammar this reader does not follow.",
    "command.opaque.depth": "It is nested too deeply or contains too many commands to follow.",
    "command.interpreter": "An interpreter runs code given on the command line or on its input.",
    "command.executes": "A program is told to execute something else, or fetches code and runs it.",
    "command.unbounded": "It may never end, needs a person at a terminal, or outlives its shell.",
    "command.unparsed": "It cannot be read as shell text.",
}
"""Every rule id of this reader, and its sentence."""

_CHANGES: dict[str, str] = {
    "command.destructive": "Name the exact files in the workspace, with a tool made for them.",
    "command.opaque.name": "Write the program's name out.",
    "command.opaque.argument": "Write the argument out, or put `--` or `./` before it.",
    "command.opaque.target": "Write the path out.",
    "command.opaque.directory": "Write the directory out.",
    "command.opaque.source": "Run the file as a separate program, or write its commands out.",
    "command.opaque.glob": "Put `./` before the pattern, or name the files.",
    "command.opaque": "Write the commands out plainly.",
    "command.interpreter": "Put the code into a file in the workspace and run that file.",
    "command.executes": "Run the inner command directly.",
    "command.unbounded": "Limit it: a timeout, a count, a smaller root, no background job.",
    "command.unparsed": "Send shorter, plain shell text.",
}


def _code(rule: str) -> str:
    return "COMMAND_" + rule.split(".")[1].upper()


def _change(rule: str) -> str:
    return _CHANGES.get(rule) or _CHANGES[rule.rpartition(".")[0]]


@cache
def _plain(rule: str) -> Reason:
    return Reason(rule=rule, code=_code(rule), text=RULES[rule], change=_change(rule))


def reason(rule: str, subject: str = "") -> Reason:
    """The reason of a rule, preceded by the words that matched."""
    if not subject:
        return _plain(rule)
    shown = "".join(c if c.isprintable() else "…" for c in subject)
    if len(shown) > 80:
        shown = shown[:79] + "…"
    plain = _plain(rule)
    return Reason(rule=rule, code=plain.code, text=f"`{shown}`: {plain.text}", change=plain.change)
