"""Regular expressions that every supported Python reads alike."""

import re
from pathlib import Path

import coilclaw

GROUP_TAKEN_WHOLE = re.compile(r"[^\\(\[]\)(?:\*|\+|\{\d*,?\d*\})\+|\(\?>")


def test_no_group_is_possessive_or_atomic():
    """Python before 3.11.5 misreads possessive and atomic groups; what they would hide then shows."""
    for path in Path(coilclaw.__file__).parent.rglob("*.py"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if "re.compile" in line or 'r"' in line:
                assert not GROUP_TAKEN_WHOLE.search(line), f"{path.name}:{number}"
