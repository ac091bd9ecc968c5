"""`ottla user`: users with SCRAM credentials, listed, made, given other passwords and deleted; hashes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.cluster.any_broker import cluster_client
from ottla.cli.cluster.outcomes import Outcomes
from ottla.cli.cluster.user_hash import hash_
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import group
from ottla.cli.frame.confirming import confirm, yes_option
from ottla.cli.frame.errors import did_you_mean
from ottla.cli.frame.table import Column
from ottla.cli.frame.terminal import is_terminal
from ottla.client.admin.scram_users import (
    DEFAULT_ITERATIONS,
    FEWEST_ITERATIONS,
    MOST_ITERATIONS,
    Credential,
    Mechanism,
    Upsertion,
    alter_users,
    describe_users,
)
from ottla.client.cluster_requests import ClusterRequests
from ottla.client.errors import ClusterError
from ottla.config.errors import UsageError, UserError

_MECHANISMS: Final = {each.word: each for each in Mechanism}
_COLUMNS: Final = (Column("name"), Column("mechanism"), Column("iterations"))
_mechanism = click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(list(_MECHANISMS), case_sensitive=False),
    help="Only this mechanism, not both. May be repeated.",
)
_iterations = click.option(
    "--iterations",
    type=click.IntRange(FEWEST_ITERATIONS, MOST_ITERATIONS),
    default=DEFAULT_ITERATIONS,
    show_default=True,
    help="How often the password is hashed.",
)
_password_file = click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="A file whose first line is the password; - is stdin. Without it the terminal asks.",
)


@group("user")
def user() -> None:
    """List users with SCRAM passwords, create, alter and delete them.

    The password stays here: the cluster gets it salted and hashed. Users of PLAIN and of certificates are in
    the settings of listeners, not here; those of the Schema Registry and the REST Proxy are in a file, for
    which `ottla user hash` makes the lines.
    """


@user.command("list", short_help="List users.", examples=("ottla user list", "ottla user list --json"))
@asks_cluster
async def list_(session: Session, /) -> None:
    """List all users with their mechanisms. With --json an object a user: name, mechanisms."""
    async with cluster_client(session.access) as requests:
        found = await describe_users(requests)
    rows = [
        {"name": name, "mechanisms": [one.mechanism.word for one in credentials]}
        for name, credentials in found.items()
        if not isinstance(credentials, ClusterError)
    ]
    if session.output.for_people:
        rows = [{**row, "mechanisms": ", ".join(row["mechanisms"])} for row in rows]
    session.output.listing(rows, (Column("name"), Column("mechanisms")), empty="there is no user")


@user.command(
    "describe",
    short_help="Tell the credentials of users.",
    examples=("ottla user describe alice", "ottla user describe alice bob --json"),
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@asks_cluster
async def describe(session: Session, /, names: tuple[str, ...]) -> int:
    """Tell the mechanisms and iterations of users; nothing secret is told.

    With --json an object a credential: name, mechanism, iterations.
    """
    outcomes = Outcomes(session.output)
    async with cluster_client(session.access) as requests:
        found = await describe_users(requests, names)
    rows: list[dict[str, Any]] = []
    for name, credentials in found.items():
        if isinstance(credentials, ClusterError):
            outcomes.failed(credentials)
            continue
        rows += [_row(name, each) for each in credentials]
    session.output.listing(rows, _COLUMNS)
    return outcomes.exit_code


def _row(name: str, credential: Credential) -> dict[str, Any]:
    return {"name": name, "mechanism": credential.mechanism.word, "iterations": credential.iterations}


@user.command(
    "create",
    short_help="Create a user.",
    examples=(
        "ottla user create alice",
        "ottla user create app --mechanism SCRAM-SHA-512 --password-file app.password",
    ),
)
@click.argument("name", metavar="NAME")
@_mechanism
@_iterations
@_password_file
@asks_cluster
async def create(
    session: Session,
    /,
    name: str,
    mechanisms: tuple[str, ...],
    iterations: int,
    password_file: Path | None,
) -> None:
    """Create a user with a password for both mechanisms, or for some.

    With --json one object: name, mechanisms, created.
    """
    async with cluster_client(session.access) as requests:
        if isinstance((await describe_users(requests, [name]))[name], list):
            raise UserError(f"user {name} exists already: `ottla user alter` gives it another password")
        chosen = await _upserted(requests, name, mechanisms, iterations, password_file)
    words = [each.word for each in chosen]
    result = {"name": name, "mechanisms": words, "created": True}
    session.output.done(f"created user {name} ({', '.join(words)})", result)


@user.command(
    "alter",
    short_help="Give a user another password.",
    examples=("ottla user alter alice", "ottla user alter alice --mechanism SCRAM-SHA-512"),
)
@click.argument("name", metavar="NAME")
@_mechanism
@_iterations
@_password_file
@asks_cluster
async def alter(
    session: Session,
    /,
    name: str,
    mechanisms: tuple[str, ...],
    iterations: int,
    password_file: Path | None,
) -> None:
    """Give a user another password, for the mechanisms that it has or for those that are named.

    With --json one object: name, mechanisms, altered.
    """
    async with cluster_client(session.access) as requests:
        there = await _credentials(requests, name)
        wanted = mechanisms or tuple(each.mechanism.word for each in there)
        chosen = await _upserted(requests, name, wanted, iterations, password_file)
    words = [each.word for each in chosen]
    result = {"name": name, "mechanisms": words, "altered": True}
    session.output.done(f"user {name} has another password ({', '.join(words)})", result)


@user.command(
    "delete",
    short_help="Delete users, or one of their mechanisms.",
    examples=("ottla user delete alice", "ottla user delete alice --mechanism SCRAM-SHA-256 --yes"),
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@_mechanism
@yes_option
@asks_cluster
async def delete(session: Session, /, names: tuple[str, ...], mechanisms: tuple[str, ...], yes: bool) -> int:
    """Delete users, or only their credentials of some mechanisms, and ask before.

    Connections that they have go on until they log in again. With --json an object a user: name, mechanisms,
    deleted.
    """
    outcomes = Outcomes(session.output)
    chosen = [_MECHANISMS[each] for each in mechanisms] or list(Mechanism)
    async with cluster_client(session.access) as requests:
        wanted: dict[str, list[Mechanism]] = {}
        for name in dict.fromkeys(names):
            has = {each.mechanism for each in await _credentials(requests, name)}
            missing = [each.word for each in chosen if mechanisms and each not in has]
            if missing:
                raise UserError(f"user {name} has no password for {missing[0]}")
            wanted[name] = [each for each in chosen if each in has]
        confirm(f"delete {', '.join(wanted)}", yes)
        pairs = [(name, each) for name, found in wanted.items() for each in found]
        for name, problem in (await alter_users(requests, deletions=pairs)).items():
            if problem is not None:
                outcomes.failed(problem)
                continue
            words = [each.word for each in wanted[name]]
            result = {"name": name, "mechanisms": words, "deleted": True}
            outcomes.done(f"deleted user {name} ({', '.join(words)})", result)
    return outcomes.exit_code


async def _credentials(requests: ClusterRequests, name: str) -> list[Credential]:
    """The credentials of a user. Raises ClusterError, which names users that are alike."""
    found = (await describe_users(requests, [name]))[name]
    if isinstance(found, ClusterError):
        raise ClusterError(f"{found}{did_you_mean(name, await describe_users(requests))}", found.code)
    return found


async def _upserted(
    requests: ClusterRequests,
    name: str,
    mechanisms: tuple[str, ...],
    iterations: int,
    password_file: Path | None,
) -> list[Mechanism]:
    chosen = [_MECHANISMS[each] for each in dict.fromkeys(mechanisms)] or list(Mechanism)
    password = _password(password_file)
    upsertions = [Upsertion(name, each, iterations, password) for each in chosen]
    problem = (await alter_users(requests, upsertions))[name]
    if problem is not None:
        raise problem
    return chosen


def _password(file: Path | None) -> str:
    """The password of a file's first line, of stdin's, or of the terminal. Raises UserError or UsageError."""
    if file is None:
        if not is_terminal(sys.stdin):
            raise UsageError("there is no terminal to ask for the password on: give --password-file")
        entered: str = click.prompt("password", hide_input=True, confirmation_prompt=True, err=True)
        return entered
    text = sys.stdin.readline() if str(file) == "-" else file.read_text(encoding="utf-8")
    password = text.partition("\n")[0].rstrip("\r")
    if not password:
        raise UserError("the password is empty")
    return password


user.add_command(hash_)
