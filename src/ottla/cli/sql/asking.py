"""The options of commands that ask a server of SQL."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ottla.cli.frame.rest_client import credential_options, properties_of
from ottla.cli.frame.terminal import is_terminal
from ottla.client.rest_access import RestAccess
from ottla.config.errors import UserError
from ottla.sql.terminal.access import PASSWORD_VARIABLE, SQL, URL_VARIABLE


def server_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --server, --user, --command-config and --set."""
    for option in (
        credential_options,
        click.option(
            "--user",
            "-u",
            metavar="NAME",
            help=f"The user; the password is asked for. [or it is in {PASSWORD_VARIABLE}]",
        ),
        click.option(
            "--server",
            metavar="URL,…",
            help=f"Servers to ask, one after the other. [or {URL_VARIABLE}; default: {SQL.default_url}]",
        ),
    ):
        function = option(function)
    return function


def access_of(
    server: str | None, user: str | None, command_config: Path | None, set_words: tuple[str, ...]
) -> RestAccess:
    """How to reach the servers that options and environment name. Raises UserError."""
    given = properties_of(command_config, set_words)
    if user is not None:
        given["basic.auth.user.info"] = f"{user}:{_password(user)}"
    url = server or os.environ.get(URL_VARIABLE) or SQL.default_url
    return RestAccess.from_properties(SQL, url, given)


def _password(user: str) -> str:
    password = os.environ.get(PASSWORD_VARIABLE)
    if password is not None:
        return password
    if not is_terminal(sys.stdin):
        raise UserError(
            f"the password of {user} is not known: set {PASSWORD_VARIABLE}, there is no terminal to ask on"
        )
    return getpass.getpass(f"Password of {user}: ")
