"""The wheelhouse: what is taken, what is refused and why, and that nothing starts with one that changed since."""

import asyncio
import hashlib
import os
import socket
import stat

import pytest

from coilclaw.features.evolve import wheels
from coilclaw.features.evolve.box import box_spec
from coilclaw.features.evolve.init import make_repository
from coilclaw.features.evolve.places import places_of
from coilclaw.features.evolve.probes import evolve_probes
from coilclaw.features.evolve.up import run
from coilclaw.features.evolve.views import evolve_view
from coilclaw.features.evolve.wheels import AT, admit_wheels, checked_wheels, take_wheels
from coilclaw.packets.errors import UsageError

FILES = {"b-1-py3-none-any.whl": b"of b", "a-2.0+local-py3-none-any.whl": b"of a"}


def as_sha256sum(files) -> str:
    """What `LC_ALL=C sha256sum *.whl | sha256sum` prints."""
    listed = "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files))
    return hashlib.sha256(listed.encode()).hexdigest()


@pytest.fixture
def home(sample):
    made = sample()
    (made.folder / "source").mkdir()
    make_repository(made.app, made.folder / "source")
    made.places = places_of(made.app.home.root)
    (made.places.code("main")).mkdir(parents=True)
    made.given = made.folder / "given"
    made.given.mkdir()
    for name, data in FILES.items():
        (made.given / name).write_bytes(data)
    return made


def in_force(home):
    return box_spec(home.app, "main", 0)


def kept(home):
    """The one copy that there is."""
    (folder,) = home.places.wheels.iterdir()
    return folder


async def test_wheels_are_copied_known_by_one_digest_and_shown(home):
    taken = await take_wheels(home.app, home.given)
    assert (taken.digest, taken.wheels, taken.bytes) == (as_sha256sum(FILES), 2, 8)
    folder = kept(home)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert evolve_view(home.app).wheels == taken.digest
    (line,) = [each for each in evolve_probes(home.app, prove=False) if each.name == "evolve wheels"]
    assert (line.state, taken.digest in line.detail) == ("info", True)


async def test_what_was_taken_is_in_the_audit_by_its_digest(home):
    taken = await take_wheels(home.app, home.given)
    await take_wheels(home.app, None)
    sql = "SELECT payload_json FROM audit_log WHERE event_type = 'evolve_wheels' ORDER BY seq"
    told = [row[0] for row in home.app.db.reader.execute(sql)]
    assert taken.digest in told[0]
    assert len(told) == 2


async def test_the_box_has_them_read_only_and_installs_from_nowhere_else(home):
    before = in_force(home)
    assert AT not in [mount.at for mount in before.mounts]
    assert "PIP_NO_INDEX" not in dict(before.environment)
    await take_wheels(home.app, home.given)
    spec = in_force(home)
    (mount,) = [mount for mount in spec.mounts if mount.at == AT]
    assert (mount.source, mount.writable) == (str(kept(home)), False)
    wanted = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": AT, "UV_OFFLINE": "1", "UV_FIND_LINKS": AT}
    assert wanted.items() <= dict(spec.environment).items()
    assert dict(spec.environment)["UV_CACHE_DIR"].startswith("/bot/"), "its /tmp would be too small"


async def test_others_take_their_place_and_none_can(home):
    await take_wheels(home.app, home.given)
    (home.given / "b-1-py3-none-any.whl").write_bytes(b"of another b")
    again = await take_wheels(home.app, home.given)
    assert checked_wheels(home.places) == again
    assert (kept(home) / "b-1-py3-none-any.whl").read_bytes() == b"of another b"
    await take_wheels(home.app, None)
    assert checked_wheels(home.places) is None
    assert list(home.places.wheels.iterdir()) == []


def planted(folder, kind):
    name = folder / "z-1-py3-none-any.whl"
    if kind == "link":
        name.symlink_to(folder / "b-1-py3-none-any.whl")
    elif kind == "folder":
        name.mkdir()
    elif kind == "pipe":
        os.mkfifo(name)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(name))
    elif kind == "oversize":
        with name.open("wb") as file:
            file.truncate(wheels.MOST_BYTES)
    elif kind == "empty":
        for path in folder.iterdir():
            path.unlink()
    elif kind == "file":
        folder.rename(folder.with_name("moved"))
        folder.write_bytes(b"")
    else:
        (folder / kind).write_bytes(b"")


REFUSED = {
    "link": "is a link",
    "folder": "not a regular file",
    "pipe": "not a regular file",
    "socket": "not a regular file",
    "oversize": "more than 2 GB",
    "empty": "there is no wheel in it",
    "file": "Not a directory",
    "pip-1.tar.gz": "not a valid name of a wheel",
    ".hidden.whl": "not a valid name of a wheel",
    "a\x1b[2J\n-1.whl": "not a valid name of a wheel",
}


@pytest.mark.parametrize("kind", REFUSED)
async def test_anything_but_wheels_is_refused_with_the_reason_and_what_was_taken_before_stays(home, kind):
    before = await take_wheels(home.app, home.given)
    admit_wheels(home.given)
    planted(home.given, kind)
    with pytest.raises(UsageError, match=REFUSED[kind]):
        admit_wheels(home.given)  # which `evolve init` asks before it makes anything
    with pytest.raises(UsageError, match=REFUSED[kind]) as refused:
        await take_wheels(home.app, home.given)
    assert "pip download" in refused.value.remedy
    assert "\x1b" not in refused.value.message
    assert checked_wheels(home.places) == before
    kept(home)


def changed(folder, how):
    wheel = folder / "b-1-py3-none-any.whl"
    if how == "other bytes":
        wheel.write_bytes(b"of c")
    elif how == "one more":
        (folder / "c-1-py3-none-any.whl").write_bytes(b"")
    elif how == "one less":
        wheel.unlink()
    elif how == "another name":
        wheel.rename(folder / "c-1-py3-none-any.whl")
    elif how == "a link to the same bytes":
        wheel.rename(folder.parent / "away.whl")
        wheel.symlink_to(folder.parent / "away.whl")
    elif how == "a link to the same folder":
        folder.rename(folder.with_name("away"))
        folder.symlink_to("away")
    elif how == "gone":
        folder.rename(folder.parent.parent / "away")
    elif how == "its record":
        folder.parent.with_suffix(".json").write_text("{}")
    elif how == "a record that leads elsewhere":
        record = folder.parent.with_suffix(".json")
        record.write_text(record.read_text().replace(folder.name, "../bot"))


@pytest.mark.parametrize(
    "how", ["other bytes", "one more", "one less", "another name", "a link to the same bytes",
    "a link to the same folder", "gone", "its record", "a record that leads elsewhere"],
)  # fmt: skip
async def test_nothing_starts_with_wheels_that_changed_since(home, how):
    await take_wheels(home.app, home.given)
    changed(kept(home), how)
    with pytest.raises(UsageError, match="wheels are not those") as refused:
        in_force(home)
    assert "coilclaw evolve wheels" in refused.value.remedy
    with pytest.raises(UsageError, match="wheels are not those"):
        await run(home.app, asyncio.Event(), lambda _: pytest.fail("it started"))
    probes = {each.name: each for each in await asyncio.to_thread(evolve_probes, home.app, prove=True)}
    assert probes["evolve wheels"].state == "fail"
    await take_wheels(home.app, home.given)
    assert AT in [mount.at for mount in in_force(home).mounts], "and taking them again mends it"
