"""Users in a file of Jetty's format, which Confluent's services take: `alice: MD5:5ebe…,developer,admin`.

A line has a name, a stored password (password_hashes.py), and the user's roles with commas between. It is a
properties file of Java's: comments begin with #, and the first colon, equals sign or space ends the name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ottla.config.errors import ConfigError
from ottla.config.java_properties import properties_text
from ottla.config.sources import from_file
from ottla.security.password_hashes import MAX_PASSWORD_BYTES, StoredPassword, UnusableHash, stored_password


class UnusableRealm(ValueError):
    """A file of users can't be used; one line with the file and the user, without passwords."""


@dataclass(frozen=True, slots=True)
class User:
    """A user of the file."""

    name: str
    roles: frozenset[str]
    password: StoredPassword = field(repr=False)


@dataclass(frozen=True, slots=True)
class Realm:
    """The users of a file, by name."""

    users: Mapping[str, User]

    @property
    def is_slow(self) -> bool:
        """Whether a check may take so long that it belongs into a thread."""
        return any(user.password.is_slow for user in self.users.values())

    def verified(self, name: str, password: str) -> User | None:
        """The user, if the password is right. A name that is not there takes as long as one that is."""
        user = self.users.get(name)
        if len(password.encode("utf-8", "surrogateescape")) > MAX_PASSWORD_BYTES:
            return None
        compared = user or max(self.users.values(), key=lambda one: one.password.is_slow, default=None)
        if compared is None:
            return None
        return user if compared.password.matches(password) and user is not None else None


def read_realm(path: Path) -> Realm:
    """The users of a file. Raises UnusableRealm."""
    try:
        given = from_file(path)
    except ConfigError as problem:
        raise UnusableRealm(str(problem)) from None
    users: dict[str, User] = {}
    for name, line in given.items():
        stored, *roles = (part.strip() for part in line.text.split(","))
        if not stored:
            raise UnusableRealm(f"{line.origin}{name} has no password")
        try:
            password = stored_password(stored)
        except UnusableHash as problem:
            raise UnusableRealm(f"{line.origin}{name}: {problem}") from None
        users[name] = User(name, frozenset(role for role in roles if role), password)
    return Realm(users)


def realm_line(name: str, stored: str, roles: tuple[str, ...]) -> str:
    """The line of a user, as `read_realm` reads it; without the end of the line."""
    return properties_text({name: ",".join((stored, *roles))}).rstrip("\n").replace("=", ": ", 1)
