"""The five workflows as they are shipped, filled in for one owner."""

from pathlib import Path

from coilclaw.features.forge.actions.workflow_rows import FOLDER, ROWS

TEMPLATES = Path(__file__).parent.parent.parent.parent / "templates" / "workflows"


def shipped_workflows(owner_id: int) -> dict[str, str]:
    """Every workflow by its path in the bot's repository."""
    texts = {name: (TEMPLATES / name).read_text("utf-8") for name in ROWS}
    return {f"{FOLDER}/{name}": text.replace("@OWNER_ID@", str(owner_id)) for name, text in texts.items()}
