"""ESTOP over HTTP: any paired device stops everything, only a passkey lets it go on, and the audit hears of it."""

import asyncio
import socket

from coilclaw.features.status.estop_watch import estop_watch
from coilclaw.server.door.slow_clients import Limits, patient
from coilclaw.server.events.part import events_part
from tests.server.house import code_of, events, house, passkey_of, signed
from tests.server.parts import house_part, queue_part
from tests.server.site import served, unlimited


async def test_a_paired_device_stops_everything_at_once(sample):
    home = sample()
    async with house(home) as site:
        told = (await site.http.post("/v1/estop", json={"reason": "smoke\nin the room"})).json()
        assert told["engaged"] is True
        assert told["reason"] == "smoke⟨U+000A⟩in the room"
        assert (await site.http.get("/v1/estop")).json() == told
        outcome = await home.call("time")
        assert outcome.result.code == "ESTOP"
        assert events(home, "estop_engaged") == [{"by": "device:dev_test", "reason": told["reason"]}]


async def test_stopping_twice_is_fine_and_told_once(sample):
    home = sample()
    async with house(home) as site:
        first = (await site.http.post("/estop")).json()
        again = (await site.http.post("/estop", json={"reason": "again"})).json()
        assert again == first
        assert first["reason"] == "by device:dev_test"
        assert len(events(home, "estop_engaged")) == 1


async def test_whoever_keeps_pressing_it_does_not_fill_the_disk(sample):
    home = sample()
    for _ in range(400):
        home.app.estop.engage("x" * 400, "2026-03-01T12:00:00.000Z")
    assert home.app.estop.file.stat().st_size < 1 << 17


async def test_a_secret_in_the_reason_is_not_kept(sample):
    home = sample(environ={"COILCLAW_OPENROUTER_API_KEY": "sk-or-v1-0123456789abcdef0123456789abcdef"})
    async with house(home) as site:
        told = (await site.http.post("/v1/estop", json={"reason": "sk-or-v1-0123456789abcdef0123456789abcdef"})).json()
        assert "0123456789abcdef" not in told["reason"]
        assert "0123456789abcdef" not in home.app.estop.file.read_text()


async def test_it_is_set_even_when_the_database_cannot_say_so(sample):
    home = sample()
    async with house(home) as site:
        await home.app.db.write(lambda tx: tx.execute("DROP TABLE meta"))
        answer = await site.http.post("/v1/estop", json={})
        assert answer.status_code == 200
        assert home.app.estop.engaged()


async def test_without_a_passkey_nobody_clears_it_over_http(sample):
    home = sample()
    async with house(home) as site:
        await site.http.post("/v1/estop", json={})
        assert (await site.http.get("/v1/estop")).json()["clear_needs"] == "passkey_missing"
        assert code_of(await site.http.post("/v1/estop/clear", json={}), 403) == "PROOF_NEEDED"
        passkey_of(site)
        assert (await site.http.get("/v1/estop")).json()["clear_needs"] == "passkey"
        assert code_of(await site.http.post("/v1/estop/clear", json={"proof": None}), 403) == "PROOF_NEEDED"
        assert home.app.estop.engaged()
        assert events(home, "estop_cleared") == []


async def test_the_owners_passkey_clears_it_once(sample):
    home = sample()
    async with house(home) as site:
        passkey = passkey_of(site)
        await site.http.post("/v1/estop", json={})
        proof = signed(site, passkey, purpose="estop.clear", subject="estop", digest=home.app.estop.mark())
        answer = await site.http.post("/v1/estop/clear", json={"proof": proof})
        assert answer.status_code == 200, answer.text
        assert answer.json()["engaged"] is False
        assert events(home, "estop_cleared") == [{"by": "device:dev_test"}]
        assert (await home.call("time")).result.success
        await site.http.post("/v1/estop", json={})
        assert code_of(await site.http.post("/v1/estop/clear", json={"proof": proof}), 403) == "PROOF_NEEDED"
        assert home.app.estop.engaged()


async def test_a_signature_for_something_else_does_not_clear_it(sample):
    home = sample()
    async with house(home) as site:
        passkey = passkey_of(site)
        await site.http.post("/v1/estop", json={})
        for asked in ({"purpose": "passkey.add", "subject": "estop"}, {"purpose": "estop.clear", "subject": "act_1"}):
            proof = signed(site, passkey, **asked)
            assert code_of(await site.http.post("/v1/estop/clear", json={"proof": proof}), 403) == "PROOF_NEEDED"
        assert home.app.estop.engaged()


async def test_a_signature_holds_for_the_very_stop_it_was_given_for(sample):
    home = sample()
    async with house(home) as site:
        passkey = passkey_of(site)
        asked = {"purpose": "estop.clear", "subject": "estop"}
        await site.http.post("/v1/estop", json={"reason": "first"})
        proof = signed(site, passkey, **asked, digest=home.app.estop.mark())
        await site.http.post("/v1/estop", json={"reason": "pressed again"})
        assert code_of(await site.http.post("/v1/estop/clear", json={"proof": proof}), 403) == "PROOF_NEEDED"
        home.app.estop.clear()
        await site.http.post("/v1/estop", json={"reason": "another one"})
        assert code_of(await site.http.post("/v1/estop/clear", json={"proof": proof}), 403) == "PROOF_NEEDED"
        assert home.app.estop.engaged()


def test_what_was_pressed_again_meanwhile_is_not_cleared(sample):
    stop = sample().app.estop
    assert not stop.clear("whatever")
    stop.engage("first", "2026-03-01T12:00:00.000Z")
    mark = stop.mark()
    stop.engage("second", "2026-03-01T12:00:01.000Z")
    assert not stop.clear(mark)
    assert stop.state().reason == "first"
    assert stop.clear(stop.mark())
    assert not stop.engaged()
    assert stop.mark() == ""


async def test_clearing_what_is_not_engaged_changes_nothing(sample):
    home = sample()
    async with house(home) as site:
        answer = await site.http.post("/v1/estop/clear", json={})
        assert answer.json()["engaged"] is False
        assert events(home, "estop_cleared") == []


async def test_clearing_what_nobody_had_noticed_tells_of_both(sample):
    home = sample()
    async with house(home) as site:
        passkey = passkey_of(site)
        home.app.estop.engage("by hand", "2026-03-01T12:00:00.000Z")
        proof = signed(site, passkey, purpose="estop.clear", subject="estop", digest=home.app.estop.mark())
        assert (await site.http.post("/v1/estop/clear", json={"proof": proof})).status_code == 200
        assert events(home, "estop_engaged") == [{}]
        assert events(home, "estop_cleared") == [{"by": "device:dev_test"}]


async def test_a_file_set_from_outside_is_noticed_once_whoever_watches(sample):
    home = sample()
    watches = [estop_watch(home.app) for _ in range(3)]
    home.app.estop.engage("by hand", "2026-03-01T12:00:00.000Z")
    assert sum(await asyncio.gather(*(watch.run() for watch in watches))) == 1
    assert sum(await asyncio.gather(*(watch.run() for watch in watches))) == 0
    home.app.estop.clear()
    assert sum(await asyncio.gather(*(watch.run() for watch in watches))) == 1
    assert (events(home, "estop_engaged"), events(home, "estop_cleared")) == ([{"reason": "by hand"}], [{}])


async def test_what_cannot_be_read_counts_as_stopped(sample):
    home = sample()
    async with house(home) as site:
        home.app.estop.file.write_bytes(b"\xff\xfe\x00 whatever\n" * 1000)
        told = (await site.http.get("/v1/estop")).json()
        assert (told["engaged"], told["since"], told["reason"]) == (True, None, "")
        home.app.estop.file.unlink()
        home.app.estop.file.mkdir()
        assert (await site.http.get("/v1/estop")).json()["engaged"] is True
        home.app.estop.file.rmdir()
        home.app.estop.file.symlink_to("nowhere")
        assert (await site.http.get("/v1/estop")).json()["engaged"] is True


async def test_bad_bodies_are_refused_and_stop_nothing(sample):
    home = sample()
    async with house(home) as site:
        for body in ({"reason": 5}, {"reason": "x" * 401}, {"why": "x"}, [], "x"):
            assert code_of(await site.http.post("/v1/estop", json=body), 400) == "BAD_REQUEST"
        for proof in ("x", {"id": "x"}, {"challenge_id": "", "id": "", "response": {}}):
            assert (await site.http.post("/v1/estop/clear", json={"proof": proof})).status_code == 400
        assert not home.app.estop.engaged()


async def test_a_running_worker_tells_of_a_file_set_by_hand(sample):
    from coilclaw.app import build_worker
    from coilclaw.features.jobs.background import Background

    home = sample()
    background = Background(home.app)
    stop = asyncio.Event()
    with background.named() as name:
        working = asyncio.ensure_future(build_worker(home.app, background.conveyor, name).run(stop))
        home.app.estop.engage("by hand", "2026-03-01T12:00:00.000Z")
        try:
            async with asyncio.timeout(280):
                while not events(home, "estop_engaged"):
                    await asyncio.sleep(0.02)
        finally:
            stop.set()
            await working
    assert events(home, "estop_engaged") == [{"reason": "by hand"}]


async def test_it_is_never_asked_for_too_often(sample):
    home = sample(server__requests_per_minute=10)
    async with served(home, queue_part, events_part, house_part) as site:
        for path in ("/v1/estop", "/estop"):
            while (await site.http.get("/v1/estop")).status_code != 429:
                pass
            stopped = await site.http.post(path)
            assert stopped.status_code == 200, stopped.text
        assert (await site.bare.post("/v1/estop")).status_code == 401


# Under a flood


async def test_estop_of_a_paired_device_gets_through_a_flood_of_half_open_connections(sample):
    """Everything that comes at once is taken in the order it came, and what came is read before it makes way."""
    home = sample()
    async with served(
        home, queue_part, events_part, house_part, rates=unlimited(), protocol=patient(Limits(connections=64))
    ) as site:
        head = (
            f"POST /v1/estop HTTP/1.1\r\nHost: localhost:{site.port}\r\nAuthorization: Bearer {site.token}\r\n"
            "Content-Length: 0\r\nConnection: close\r\n\r\n"
        )
        answers = []
        for _ in range(20):
            answers.append(await estop_amid_flood(site.port, head.encode()))
            await drained(site.port)
        assert [answer[:12] for answer in answers] == [b"HTTP/1.1 200"] * 20
        assert home.app.estop.engaged()


async def estop_amid_flood(port, request, strangers=150):
    """While the server does nothing, half-open connections come, then the request, then as many again."""
    held = [half_open(port) for _ in range(strangers)]
    asking = socket.create_connection(("127.0.0.1", port))
    asking.sendall(request)
    held += [half_open(port) for _ in range(strangers)]
    try:
        reader, writer = await asyncio.open_connection(sock=asking)
        async with asyncio.timeout(280):
            try:
                return await reader.read()
            except ConnectionResetError:
                return b"reset"
            finally:
                writer.close()
    finally:
        for each in held:
            each.close()


async def drained(port):
    """Wait until the server has accepted everything queued before: a full queue would block the next connect."""
    async with asyncio.timeout(280):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /health HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()


def half_open(port):
    made = socket.create_connection(("127.0.0.1", port))
    made.sendall(b"GET /health HTTP/1.1\r\n")
    return made
