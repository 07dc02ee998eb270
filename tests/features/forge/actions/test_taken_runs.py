"""Runs in Actions, once merged: their chains are verified, and the owner's ledger says how that went."""

import msgspec
import pytest

from coilclaw.features.forge.actions.taken_runs import take_in_runs
from coilclaw.features.forge.forge import LocalForge
from coilclaw.ledger.run_evidence import RunEvidence, chain_fault, run_chain
from coilclaw.sandbox.bot_repository import BOT, Written


@pytest.fixture
async def here(office):
    here = office(forge__enabled=True)
    await here.home.call("file_list", path=".", key="a")
    await here.home.call("file_list", path=".", key="b")
    here.app.ledger.close()
    return here


def evidence(here, **changed):
    chain = run_chain(here.app.db.reader, here.app.signing_key, "author")
    assert len(chain.receipts) == 2
    return RunEvidence(
        version=1, job_id="job_x", run_id="7", chains=(msgspec.structs.replace(chain, **changed),)
    )  # fmt: skip


def put(here, data):
    forge = LocalForge(here.app)
    main = forge.bot.settle("before")
    commit = forge.repository.commit(main, [Written("audit/runs/job_x.json", data)], "Merge", BOT, 1_700_000_000)
    forge.repository.move("refs/heads/main", commit, main)
    return forge


def events(here):
    rows = here.app.db.reader.execute("SELECT event_type FROM audit_log WHERE event_type LIKE 'run_%' ORDER BY seq")
    return [row[0] for row in rows]


async def test_a_run_that_holds_is_written_down_once(here):
    forge = put(here, msgspec.json.encode(evidence(here)))
    assert [await take_in_runs(here.app, forge) for _ in range(2)] == [1, 0]
    assert events(here) == ["run_verified"]


async def test_a_run_that_does_not_hold_is_told(here):
    forge = put(here, msgspec.json.encode(evidence(here, key="00" * 32)))
    await take_in_runs(here.app, forge)
    assert events(here) == ["run_broken"]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda chain: {"receipts": chain.receipts[:1]}, "does not cover"),
        (lambda chain: {"receipts": chain.receipts[::-1]}, "does not continue"),
        (lambda chain: {"receipts": (chain.receipts[0].replace("file_list", "file_read"), chain.receipts[1])}, "hash"),
        (lambda chain: {"receipts": ("{}", chain.receipts[1])}, "cannot be read"),
        (lambda chain: {"head": ""}, "does not cover"),
        (lambda chain: {"receipts": ()}, "without a receipt"),
        (lambda chain: {"key": "ab" * 32}, "not signed"),
        (lambda chain: {"key": "x"}, "not signed"),
    ],
)
async def test_every_change_of_a_chain_is_found(here, change, fault):
    (chain,) = evidence(here).chains
    assert chain_fault(chain) == ""
    assert fault in chain_fault(msgspec.structs.replace(chain, **change(chain)))
