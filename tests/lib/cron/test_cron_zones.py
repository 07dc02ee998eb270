"""Zone data: the newer release wins, names are exact, and nothing but a zone is ever read."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import tzdata

from coilclaw.lib.cron.zones import newest, release, zones
from coilclaw.packets.errors import UsageError

PACKAGED = Path(tzdata.__file__).parent / "zoneinfo"


def system(folder: Path, version: str) -> Path:
    """A system's zone folder of some release, in which Berlin keeps the time of Tokyo."""
    (folder / "Europe").mkdir(parents=True)
    shutil.copy(PACKAGED / "Asia" / "Tokyo", folder / "Europe" / "Berlin")
    source = f"# version {version}\nZ Europe/Berlin 9 - JST\nL Europe/Berlin Old/Name\nL Asia/Kabul Asia/Kabul\n"
    (folder / "tzdata.zi").write_text(source, encoding="utf-8")
    return folder


def test_packaged_data_wins_over_an_older_system(tmp_path):
    found = newest([system(tmp_path, "2020a")])
    assert found.version == tzdata.IANA_VERSION
    assert datetime(2026, 1, 1, tzinfo=UTC).astimezone(found.get("Europe/Berlin")).utcoffset() == timedelta(hours=1)


def test_a_newer_system_wins_and_packaged_data_fills_in_files_it_leaves_out(tmp_path):
    found = newest([tmp_path / "missing", system(tmp_path / "zoneinfo", "2999a")])
    assert found.version == "2999a"
    assert found.names == {"Europe/Berlin", "Old/Name", "Asia/Kabul"}
    assert datetime(2026, 1, 1, tzinfo=UTC).astimezone(found.get("Europe/Berlin")).utcoffset() == timedelta(hours=9)
    assert str(found.get("Asia/Kabul")) == "Asia/Kabul"


def test_a_system_that_does_not_tell_its_release_is_not_asked(tmp_path):
    (tmp_path / "tzdata.zi").write_bytes(b"\xff\xfe")
    assert newest([tmp_path]).version == newest([]).version == tzdata.IANA_VERSION


def test_releases_are_ordered_by_time():
    assert sorted(["2026a", "2025b", "2024z", "2026f", "2025aa"], key=release) == [
        "2024z", "2025b", "2025aa", "2026a", "2026f",
    ]  # fmt: skip


def test_fresh_data_knows_what_changed_lately():
    """British Columbia stays on summer time from 2026 on."""
    offset = datetime(2026, 12, 1, tzinfo=UTC).astimezone(zones().get("America/Vancouver")).utcoffset()
    assert offset == timedelta(hours=-7)


def test_every_zone_can_be_read_and_is_read_once():
    for name in zones().names:
        assert zones().get(name) is zones().get(name)
        assert datetime(2026, 6, 1, tzinfo=UTC).astimezone(zones().get(name)).utcoffset() is not None


@pytest.mark.parametrize(("name", "words"), [
    ("america/los_angeles", "Did you mean America/Los_Angeles?"),
    ("America/New York", "Did you mean America/New_York?"),
    ("Berlin", "Did you mean Europe/Berlin?"),
    ("Europe/Belin", "Europe/Berlin"),
    ("UTC+2", "Write Etc/GMT-2"),
    ("-05:00", "Write Etc/GMT+5"),
    ("PST", "Write an IANA name"),
    ("", "Write an IANA name"),
    ("../../../etc/passwd", "Write an IANA name"),
    ("/etc/localtime", "Write an IANA name"),
    ("Europe", "Europe"),
    ("Europe/Berlin\0", "Europe/Berlin"),
    ("x" * 100_000, "Write an IANA name"),
])  # fmt: skip
def test_what_is_not_a_zone_is_refused_with_the_nearest(name, words):
    with pytest.raises(UsageError) as refusal:
        zones().get(name)
    assert words in str(refusal.value)
    assert len(str(refusal.value)) < 300
