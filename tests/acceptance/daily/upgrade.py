"""Upgrade a dependency from a folder of wheels, and follow what it renamed."""

import shutil

from coilclaw.sandbox.binaries import PATH
from tests.acceptance.daily.task import ONCE, TESTS, WRITES, Task, call, edit, plan, shell, tests

STEPS = ("see what changed", "install", "follow the new names", "run the tests")
WHEEL = "notes/index/tinytext-2.0-py3-none-any.whl"
PIP = "python3 -m pip install -q --no-index --find-links notes/index --upgrade --target notes/lib tinytext==2.0"
UNPACK = f"python3 -m zipfile -e {WHEEL} notes/lib"
HAS_PIP = any(shutil.which(name, path=PATH) for name in ("pip", "pip3"))


def wheel(number: str, code: str) -> dict[str, str]:
    """The files of a package, as they lie in a wheel; the test packs those whose folder ends with .whl."""
    info = f"tinytext-{number}.dist-info"
    folder = f"notes/index/tinytext-{number}-py3-none-any.whl"
    return {
        f"{folder}/tinytext/__init__.py": code,
        f"{folder}/{info}/METADATA": f"Metadata-Version: 2.1\nName: tinytext\nVersion: {number}\n",
        f"{folder}/{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{folder}/{info}/RECORD": "",
    }


OLD = 'VERSION = "1.0"\n\n\ndef shorten(text, width):\n    return text[:width]\n'
NEW = """VERSION = "2.0"


def cut(text, *, width, end="…"):
    return text if len(text) <= width else text[: width - 1] + end
"""

TASK = Task(
    name="upgrade a dependency from a local index",
    says="upgrade tinytext in notes to 2.0; the wheels are in notes/index",
    files={
        **wheel("1.0", OLD),
        **wheel("2.0", NEW),
        "notes/lib/tinytext/__init__.py": OLD,
        "notes/requirements.txt": "tinytext==1.0\n",
        "notes/notes/__init__.py": "import sys\nfrom pathlib import Path\n\n"
        'sys.path.insert(0, str(Path(__file__).parent.parent / "lib"))\n',
        "notes/notes/titles.py": '''"""Titles of notes."""

from tinytext import shorten


def title(note: str) -> str:
    """The first line, short enough for a list."""
    return shorten(note.strip().split("\\n")[0], 12)
''',
        "notes/tests/__init__.py": "",
        "notes/tests/test_titles.py": """import unittest
from pathlib import Path

from notes.titles import title
import tinytext


class Titles(unittest.TestCase):
    def test_a_long_title_is_cut(self):
        self.assertEqual(title("Buy beans and bread\\nsoon")[:11], "Buy beans a")
        self.assertEqual(len(title("Buy beans and bread")), 12)

    def test_what_is_installed_is_what_is_required(self):
        required = (Path(__file__).parent.parent / "requirements.txt").read_text().strip()
        self.assertEqual(required, f"tinytext=={tinytext.VERSION}")
""",
    },
    rounds=[
        [
            plan(*STEPS, done=0),
            call("file_list", path="notes/index"),
            call("file_search", pattern="tinytext", path="notes", glob="*.{py,txt}"),
        ],
        [plan(*STEPS, done=1), shell(PIP if HAS_PIP else UNPACK)],
        [plan(*STEPS, done=2), call("file_read", path="notes/lib/tinytext/__init__.py")],
        [
            edit(
                "notes/notes/titles.py",
                ("import shorten", "import cut"),
                ('shorten(note.strip().split("\\n")[0], 12)', 'cut(note.strip().split("\\n")[0], width=12)'),
            ),
            edit("notes/requirements.txt", ("==1.0", "==2.0")),
        ],
        [plan(*STEPS, done=3), tests("notes")],
    ],
    answers=[ONCE if HAS_PIP else f"this command: {UNPACK}", WRITES, TESTS],
    gone=["shorten"],
    there=["tinytext==2.0", r"cut\(note"],
)
