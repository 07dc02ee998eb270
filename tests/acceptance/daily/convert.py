"""Convert a data file to another format with a script."""

import json

from tests.acceptance.daily.task import TESTS, WRITES, Task, call, edit, shell, tests

ROWS = [(f"s{number}", f"Station {number}", 48 + number / 100, number % 3 == 0) for number in range(40)]
CSV = "id;name;lat;open\n" + "".join(f"{a};{b};{c:.2f};{'yes' if d else 'no'}\n" for a, b, c, d in ROWS)
SCRIPT = '''"""Turn stations.csv into stations.json."""
import csv
import json
from pathlib import Path

here = Path(__file__).resolve().parent
with (here / "data" / "stations.csv").open(newline="") as file:
    rows = list(csv.DictReader(file, delimiter=";"))
made = {row["id"]: {"name": row["name"], "lat": float(row["lat"]), "open": row["open"] == "yes"} for row in rows}
(here / "data" / "stations.json").write_text(json.dumps(made, indent=1) + "\\n")
print(len(made), "stations")
'''
READ = """    with DATA.open(newline="") as file:
        return {row.pop("id"): row for row in csv.DictReader(file, delimiter=";")}
"""

TASK = Task(
    name="convert a data file with a script",
    says="turn stations/data/stations.csv into JSON, by id, and have the code read that",
    files={
        "stations/data/stations.csv": CSV,
        "stations/stations/__init__.py": "",
        "stations/stations/load.py": '''"""Stations."""

import csv
from pathlib import Path

DATA = Path(__file__).parent.parent / "data" / "stations.csv"


def stations() -> dict[str, dict]:
    """All of them, by id."""
    with DATA.open(newline="") as file:
        return {row.pop("id"): row for row in csv.DictReader(file, delimiter=";")}
''',
        "stations/tests/__init__.py": "",
        "stations/tests/test_load.py": """import unittest

from stations.load import DATA, stations


class Stations(unittest.TestCase):
    def test_they_are_read_from_json(self):
        self.assertEqual(DATA.name, "stations.json")
        self.assertFalse(DATA.with_name("stations.csv").exists())

    def test_values_have_their_types(self):
        found = stations()
        self.assertEqual(len(found), 40)
        self.assertEqual(found["s3"], {"name": "Station 3", "lat": 48.03, "open": True})
""",
    },
    rounds=[
        [shell("head -n 3 stations/data/stations.csv"), call("file_read", path="stations/stations/load.py")],
        [call("file_write", path="stations/convert.py", content=SCRIPT)],
        [shell("python3 stations/convert.py")],
        [call("file_read", path="stations/data/stations.json", limit=6)],
        [
            edit(
                "stations/stations/load.py",
                ("import csv\n", "import json\n"),
                ('"stations.csv"', '"stations.json"'),
                (READ, "    return json.loads(DATA.read_text())\n"),
            ),
            call("file_move", path="stations/data/stations.csv", target="stations/before/stations.csv"),
        ],
        [tests("stations")],
    ],
    answers=[WRITES, "this command: python3 stations/convert.py", TESTS],
    there=[json.dumps("Station 39"), r"json\.loads\(DATA"],
    gone=[r"DictReader\(file, delimiter=\";\"\)\}"],
)
