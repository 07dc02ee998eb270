"""Names that do not exist: what was perhaps meant."""

from collections.abc import Iterable


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A remedy that names the nearest valid names."""
    from difflib import get_close_matches

    known = list(names)
    near = get_close_matches(name[:80], known, n=2)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return f"There are: {', '.join(known[:20])}." if known else "There are none yet."
