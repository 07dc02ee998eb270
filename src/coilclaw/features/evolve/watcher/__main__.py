"""`python -I -S …/watcher SETTINGS`: run as a folder, so that nothing outside it can be imported by mistake."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def main() -> int:
    """Watch until told to stop."""
    # Last on the path: no file beside this folder can take the place of a module of the standard library.
    sys.path[:] = [place for place in sys.path if place != str(Path(__file__).parent)]
    sys.path.append(str(Path(__file__).resolve().parent.parent))
    return int(import_module("watcher.loop").watch(Path(sys.argv[1])))


if __name__ == "__main__":
    sys.exit(main())
