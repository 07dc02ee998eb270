from datetime import UTC, datetime, timedelta

from coilclaw.packets.ids import from_stamp, new_id, stamp


def test_ids_sort_by_the_time_they_were_made():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    made = [new_id("act", start + timedelta(milliseconds=n)) for n in range(200)]
    assert made == sorted(made)
    assert len(set(made)) == 200


def test_a_stamp_is_utc_to_the_millisecond_and_reads_back():
    moment = datetime(2026, 5, 12, 14, 0, 0, 123456, tzinfo=UTC)
    assert stamp(moment) == "2026-05-12T14:00:00.123Z"
    assert from_stamp(stamp(moment)) == moment.replace(microsecond=123000)
