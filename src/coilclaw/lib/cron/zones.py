"""Time zones: the newer of the packaged and the system's IANA data, with a known version."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw.packets.errors import StorageError, UsageError
from coilclaw.packets.text import one_line

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

_VERSION = re.compile(r"# version ([0-9]{4}[a-z]+)")
_RELEASE = re.compile(r"([0-9]{4})([a-z]+)")
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])([0-9]{1,2})(?::?00)?", re.IGNORECASE)


class Zones:
    """One release of the zone data, and the zones read from it so far."""

    def __init__(self, version: str, folder: Path, names: Iterable[str], otherwise: Path | None = None) -> None:
        self.version = version
        self.folder = folder
        self._otherwise = otherwise
        self._names = frozenset(names)
        self._read: dict[str, ZoneInfo] = {}

    @property
    def names(self) -> frozenset[str]:
        """Every name that is a zone."""
        return self._names

    def get(self, name: str) -> "ZoneInfo":
        """The zone with that name; UsageError with the nearest names if there is none."""
        zone = self._read.get(name)
        if zone is None:
            if name not in self._names:
                raise UsageError(f"there is no time zone {one_line(name[:80])!r}.", remedy=self._near(name))
            zone = self._read[name] = self._load(name)
        return zone

    def _load(self, name: str) -> "ZoneInfo":
        from zoneinfo import ZoneInfo

        for folder in (self.folder, self._otherwise):  # some systems list old names without their files
            if folder is not None and (folder / name).is_file():
                with (folder / name).open("rb") as file:
                    return ZoneInfo.from_file(file, key=name)
        raise StorageError(f"the data of the time zone {name} is missing.", remedy="Reinstall the package tzdata.")

    def near(self, name: str) -> list[str]:
        """Suggestions: other case, only the city, an offset, a typo."""
        from difflib import get_close_matches

        asked = re.sub(r"[\s-]+", "_", name.strip()[:80]).lower()
        same = sorted(known for known in self._names if known.lower() == asked)
        city = sorted(known for known in self._names if asked and known.lower().rpartition("/")[2] == asked)
        offset = _OFFSET.fullmatch(name.strip()[:80])
        turned = f"Etc/GMT{'-' if offset[1] == '+' else '+'}{int(offset[2])}" if offset else ""
        if turned in self._names:
            return [turned]
        lower = {known.lower(): known for known in sorted(self._names)}
        close = [lower[each] for each in get_close_matches(asked, lower, n=2, cutoff=0.7)]
        return same or city[:2] or close

    def _near(self, name: str) -> str:
        near = self.near(name)
        if near and near[0].startswith("Etc/GMT") and _OFFSET.fullmatch(name.strip()[:80]):
            return f"Write {near[0]}: the sign is reversed there."
        if near:
            return f"Did you mean {' or '.join(near)}?"
        return "Write an IANA name such as Europe/Berlin, America/New_York or UTC."


@cache
def zones() -> Zones:
    """The zones of this process: the packaged data unless the system's is newer."""
    import zoneinfo

    return newest(map(Path, zoneinfo.TZPATH))


def newest(folders: Iterable[Path]) -> Zones:
    """The packaged zones, or those of the first folder with a known, newer release."""
    packaged = _packaged()
    folder, version = next(((each, found) for each in folders if (found := _version_of(each))), (None, ""))
    if folder is not None and (packaged is None or release(version) > release(packaged.version)):
        return Zones(version, folder, _listed(folder / "tzdata.zi"), None if packaged is None else packaged.folder)
    if packaged is None:
        raise StorageError("there is no time zone data.", remedy="Install the package tzdata.")
    return packaged


def release(version: str) -> tuple[int, int, str]:
    """A sortable version: 2025b, 2026a, 2026f."""
    match = _RELEASE.fullmatch(version)
    return (int(match[1]), len(match[2]), match[2]) if match else (0, 0, version)


def _packaged() -> Zones | None:
    try:
        import tzdata
    except ImportError:
        return None
    folder = Path(tzdata.__file__).parent
    names = (folder / "zones").read_text(encoding="utf-8").split()
    return Zones(tzdata.IANA_VERSION, folder / "zoneinfo", names)


def _version_of(folder: Path) -> str:
    """The release of a folder of zone files; empty if unknown."""
    try:
        with (folder / "tzdata.zi").open(encoding="utf-8") as file:
            match = _VERSION.match(file.readline())
    except (OSError, UnicodeDecodeError):
        return ""
    return match[1] if match else ""


def _listed(source: Path) -> list[str]:
    """The names of zones and links in the compact source next to the files."""
    names: list[str] = []
    for line in source.read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words and words[0] == "Z":
            names.append(words[1])
        elif words and words[0] == "L":
            names.append(words[2])
    return names
