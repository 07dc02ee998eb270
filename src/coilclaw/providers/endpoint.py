"""A model server's base URL, checked before anything is sent."""

import msgspec

from coilclaw.packets.errors import ConfigError


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A base URL without secrets, and whether it stays on this machine."""

    base_url: str
    local: bool

    @classmethod
    def of(cls, name: str, base_url: str) -> "Endpoint":
        """Check a configured base URL, or raise ConfigError with every fault in it."""
        from urllib.parse import urlsplit

        where = f"providers.models.{name}.base_url"
        try:
            parts = urlsplit(base_url.strip())
            host = parts.hostname or ""
            _ = parts.port  # raises if it is not a port
        except ValueError as error:
            raise ConfigError([f"{where} is not a URL: {error}"], remedy=_EXAMPLE) from error
        problems: list[str] = []
        if parts.scheme not in {"http", "https"} or not host:
            problems.append(f"{where} must begin with http:// or https:// and a host")
        if parts.username is not None or parts.password is not None:
            problems.append(f"{where} must not contain a user name or password; name the key's variable in api_key_env")
        if parts.query or parts.fragment:
            problems.append(f"{where} must not have a ? or # part")
        if any(character.isspace() or not character.isprintable() for character in base_url.strip()):
            problems.append(f"{where} must not contain spaces")
        if problems:
            raise ConfigError(problems, remedy=_EXAMPLE)
        return cls(base_url=base_url.strip().rstrip("/"), local=_is_loopback(host))


_EXAMPLE = 'Write it like base_url = "http://localhost:1234/v1".'


def _is_loopback(host: str) -> bool:
    if host in {"localhost", "::1"}:
        return True
    numbers = host.split(".")
    return len(numbers) == 4 and numbers[0] == "127" and all(number.isdecimal() for number in numbers)


def usable_key(name: str, api_key: str | None) -> str | None:
    """The key without surrounding white space, or None; ConfigError if a header cannot carry it."""
    key = (api_key or "").strip()
    if not key:
        return None
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            [f"the API key of {name} contains characters that are not allowed in an HTTP header"],
            remedy="Set its environment variable to just the key, without quotes or line breaks.",
        )
    return key
