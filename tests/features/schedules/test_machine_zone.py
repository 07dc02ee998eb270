"""Which zone this machine keeps, as far as it can be told."""

from pathlib import Path

from coilclaw.cli.output import moment
from coilclaw.features.schedules.commands.preview import machine_zone


def test_the_variable_counts_before_the_link(tmp_path: Path) -> None:
    link = tmp_path / "localtime"
    link.symlink_to("/usr/share/zoneinfo/America/New_York")
    assert machine_zone({}, link) == "America/New_York"
    assert machine_zone({"TZ": "Europe/Berlin"}, link) == "Europe/Berlin"
    assert machine_zone({"TZ": ":Asia/Tokyo"}, link) == "Asia/Tokyo"
    assert machine_zone({"TZ": ":/usr/share/zoneinfo/Asia/Tokyo"}, link) == "Asia/Tokyo"


def test_what_is_not_a_name_of_a_zone_is_not_guessed_at(tmp_path: Path) -> None:
    assert machine_zone({"TZ": "CET-1CEST"}, tmp_path / "none") is None
    assert machine_zone({}, tmp_path / "none") is None
    copied = tmp_path / "localtime"
    copied.write_bytes(b"TZif2")
    assert machine_zone({}, copied) is None


def test_what_is_not_a_time_is_told_as_it_is() -> None:
    assert moment("-") == "-"
    assert moment("") == ""
