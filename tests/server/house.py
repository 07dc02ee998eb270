"""The house served: every part it leans on, without limits on how often it is asked."""

import json

from coilclaw.ledger.audit import Wanted, last_events
from coilclaw.server.events.part import events_part
from tests.server.parts import house_part, queue_part
from tests.server.site import served, unlimited
from tests.soft_passkey import SoftPasskey


def house(sample):
    """Serve the house of a sample."""
    return served(sample, queue_part, events_part, house_part, rates=unlimited())


def events(sample, event_type):
    """The payloads of every event of a type, oldest first."""
    found = last_events(sample.app.db.reader, Wanted(event_type=event_type), 1000)
    return [event.payload for event in found]


def rows(sample):
    """How many rows there are of everything a call could leave behind."""
    tables = ("proposed_actions", "receipts", "audit_log", "messages")
    return [sample.app.db.reader.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables]


def code_of(answer, status):
    """The code of a problem, which must have this status and say what is wrong."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("application/problem+json")
    told = answer.json()
    assert told["status"] == status
    assert told["detail"]
    return told["code"]


def passkey_of(site):
    """A passkey of the device `dev_test`, registered for where the site really is."""
    site.sample.app.listening = site.port
    return SoftPasskey(origin=site.origin).enrol(site.sample.app)


def signed(site, passkey, **asked):
    """What the passkey says to a challenge, as JSON."""
    app = site.sample.app
    made, question = app.db.write_now(lambda tx: app.owner_proof.ask(tx, device_id="dev_test", **asked))
    return passkey.sign(question.challenge, challenge_id=made.challenge_id)


def policy(*rules, version=1):
    """A policy file with these rules, written so that every rule has a line of its own."""
    lines = ",\n".join(json.dumps(rule) for rule in rules)
    return f'{{\n"version": {version},\n"rules": [\n{lines}\n]\n}}\n'


def rule(name="r", verdict="deny", **when):
    """A rule."""
    return {"id": name, "when": when or {"tool": "file_write"}, "verdict": verdict, "reason": "because"}
