"""`coilclaw undo` with the real executable: what is approved is one snapshot, named when it is proposed."""

from tests.acceptance.conftest import HomeAt, one_sentence


def test_a_wrong_id_is_reported_at_once_and_proposes_nothing(home: HomeAt) -> None:
    one_sentence(home.run("undo", "snap_nope"), 2, "no snapshot")
    assert home.rows("SELECT count(*) FROM proposed_actions") == [(0,)]


def test_an_undo_that_waits_is_for_the_snapshot_that_was_the_last_then(home: HomeAt) -> None:
    home.configure('[security]\nautonomy = "full"\n')
    (home.workspace / "a.txt").write_text("first")
    assert home.tool("shell", {"command": "echo second > a.txt"}).rc == 0
    (last,) = home.ok("undo", "--list", "--json").json()
    assert home.run("undo").rc == 4
    (args,) = home.rows("SELECT args_json FROM proposed_actions WHERE tool = 'undo'")
    assert last["id"] in args[0]
