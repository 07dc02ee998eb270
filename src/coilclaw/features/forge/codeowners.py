"""CODEOWNERS: a forge that reads it asks the owner about every file that controls the agent. Pure."""

from coilclaw.packets.workspace import GOVERNING

OWNERS = ".github/CODEOWNERS"
FOLDERS = frozenset({"policies", ".github", "agent"})


def codeowners(owner: str) -> str:
    """The file that names the owner for every governing path."""
    lines = [f"/{name}{'/' if name in FOLDERS else ''} {owner}" for name in GOVERNING]
    return "\n".join(["# Files that control the agent: only the owner merges changes to them.", *lines, ""])


def covers(text: str) -> bool:
    """Whether a file names somebody for every governing path."""
    rules = [line.split() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    named = {rule[0].strip("/") for rule in rules if len(rule) > 1}
    return "*" in named or set(GOVERNING) <= named
