"""`ottla user hash`: the line of a user for the file of `ottla.authentication.users.file`."""

from __future__ import annotations

import getpass
import sys

import click

from ottla.cli.frame.commands import command
from ottla.cli.frame.terminal import is_terminal
from ottla.config.errors import UsageError, UserError
from ottla.security.password_hashes import DEFAULT_METHOD, MAX_PASSWORD_BYTES, METHODS, hashed
from ottla.security.realm_file import realm_line


@command(
    "hash",
    short_help="Make the line of a user for services' files of users.",
    examples=[
        "ottla user hash alice --role developer --role admin >> users.properties",
        "echo secret | ottla user hash bob >> users.properties",
    ],
)
@click.argument("name")
@click.option("--role", "roles", multiple=True, metavar="ROLE", help="A role of the user; may be repeated.")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default=DEFAULT_METHOD,
    show_default=True,
    help="How the password is hashed.",
)
def hash_(name: str, roles: tuple[str, ...], method: str) -> None:
    """Print the line of a user for the file of users of the Schema Registry and the REST Proxy.

    The password is asked for on the terminal, or is the first line of stdin. The services take the file by
    ottla.authentication.users.file, and read it again when it changes.
    """
    if not name or ":" in name or not name.isprintable():
        raise UsageError("the name of a user has no colon and no control characters, and is not empty")
    for role in roles:
        if not role or "," in role or role != role.strip() or not role.isprintable():
            raise UsageError(f"a role has no comma and no spaces at its ends, unlike {role!r}")
    click.echo(realm_line(name, hashed(_password(), method), roles))


def _password() -> str:
    """The password. Raises UserError."""
    if is_terminal(sys.stdin):
        given = getpass.getpass("password: ")
        if getpass.getpass("again: ") != given:
            raise UserError("the two passwords differ")
    else:
        given = sys.stdin.readline().rstrip("\r\n")
    if not given or len(given.encode("utf-8", "surrogateescape")) > MAX_PASSWORD_BYTES:
        raise UserError(f"a password has 1 to {MAX_PASSWORD_BYTES} bytes")
    return given
