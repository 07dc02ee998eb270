"""Requests as rows: begun, answered, begun again only when whoever began them is gone."""

from coilclaw.store.requests import Kept, begin_request, finish_request, forget_request

ANSWER = Kept(status=201, headers=[("content-type", "application/json")], body=b'{"a":1}')


def begin(db, clock, *, device="d", key="k", asked="h", worker="w1", gone=()):
    return db.write_now(
        lambda tx: begin_request(
            tx,
            clock,
            device_id=device,
            key=key,
            request_hash=asked,
            worker=worker,
            gone=lambda name: name in gone,
        )
    )


def finish(db, *, worker="w1", kept=ANSWER):
    db.write_now(lambda tx: finish_request(tx, device_id="d", key="k", worker=worker, kept=kept))


def test_a_request_is_begun_once_and_then_answered_alike(db, clock):
    assert begin(db, clock) == "begun"
    assert begin(db, clock) == "running"
    finish(db)
    assert begin(db, clock) == ANSWER
    assert begin(db, clock, worker="w2", gone=("w1",)) == ANSWER


def test_another_request_under_the_key_is_a_conflict_whatever_became_of_the_first(db, clock):
    begin(db, clock)
    assert begin(db, clock, asked="other") == "conflict"
    finish(db)
    assert begin(db, clock, asked="other") == "conflict"
    assert begin(db, clock, asked="other", device="e") == "begun"


def test_what_a_dead_process_began_is_begun_again_by_one(db, clock):
    begin(db, clock, worker="w1")
    assert begin(db, clock, worker="w2") == "running"
    assert begin(db, clock, worker="w2", gone=("w1",)) == "begun"
    assert begin(db, clock, worker="w3", gone=("w1",)) == "running"


def test_only_who_has_it_in_hand_answers_or_forgets_it(db, clock):
    begin(db, clock, worker="w1")
    begin(db, clock, worker="w2", gone=("w1",))
    finish(db, worker="w1")
    db.write_now(lambda tx: forget_request(tx, device_id="d", key="k", worker="w1"))
    assert begin(db, clock, worker="w3") == "running"
    finish(db, worker="w2")
    assert begin(db, clock, worker="w3") == ANSWER


def test_a_forgotten_request_is_new_and_an_answered_one_is_not_forgotten(db, clock):
    begin(db, clock)
    db.write_now(lambda tx: forget_request(tx, device_id="d", key="k", worker="w1"))
    assert begin(db, clock, asked="other") == "begun"
    finish(db)
    db.write_now(lambda tx: forget_request(tx, device_id="d", key="k", worker="w1"))
    assert begin(db, clock, asked="other") == ANSWER


def test_an_answer_without_a_body_is_kept_as_that(db, clock):
    begin(db, clock)
    finish(db, kept=Kept(status=204, headers=[], body=b""))
    assert begin(db, clock) == Kept(status=204, headers=[], body=b"")
