"""The options of commands that ask a server of SQL."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.frame.options import pairs_option
from ottla.cli.frame.terminal import is_terminal
from ottla.config.errors import UserError
from ottla.config.sources import SET, from_file, from_words, layered, texts
from ottla.sql.terminal.access import DEFAULT_URL, URL_VARIABLE, SqlAccess

PASSWORD_VARIABLE: Final = "OTTLA_SQL_PASSWORD"


def server_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --server, --user, --command-config and --set."""
    for option in (
        pairs_option(SET, "set_words", "One setting of the client; may be repeated, wins over the file."),
        click.option(
            "--command-config",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="A properties file with the client's credentials: basic.auth.user.info, bearer.auth.token, "
            "ssl.ca.location, ssl.certificate.location, ssl.key.location.",
        ),
        click.option(
            "--user",
            "-u",
            metavar="NAME",
            help=f"The user; the password is asked for. [or it is in {PASSWORD_VARIABLE}]",
        ),
        click.option(
            "--server",
            metavar="URL,…",
            help=f"Servers to ask, one after the other. [or {URL_VARIABLE}; default: {DEFAULT_URL}]",
        ),
    ):
        function = option(function)
    return function


def access_of(
    server: str | None, user: str | None, command_config: Path | None, set_words: tuple[str, ...]
) -> SqlAccess:
    """How to reach the servers that options and environment name. Raises UserError."""
    file = {} if command_config is None else from_file(command_config)
    given = texts(layered(file, from_words(set_words)))
    if user is not None:
        given["basic.auth.user.info"] = f"{user}:{_password(user)}"
    return SqlAccess.from_properties(server or os.environ.get(URL_VARIABLE) or DEFAULT_URL, given)


def _password(user: str) -> str:
    password = os.environ.get(PASSWORD_VARIABLE)
    if password is not None:
        return password
    if not is_terminal(sys.stdin):
        raise UserError(
            f"the password of {user} is not known: set {PASSWORD_VARIABLE}, there is no terminal to ask on"
        )
    return getpass.getpass(f"Password of {user}: ")
