"""`ottla token`: delegation tokens are created, renewed, ended and described (KIP-48)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from ottla.cli.cluster.any_broker import cluster_client
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import group
from ottla.cli.frame.output import OutputMode
from ottla.cli.frame.table import Column
from ottla.client.tokens import (
    AT_ONCE_MS,
    CLUSTERS_CHOICE_MS,
    DelegationToken,
    create_token,
    describe_tokens,
    expire_token,
    hmac_text,
    parse_hmac,
    renew_token,
)

_MILLISECONDS: Final = click.IntRange(1, 2**63 - 1)
_DESCRIBED: Final = (
    Column("token_id", "TOKEN ID"),
    Column("owner", "OWNER"),
    Column("requester", "REQUESTER"),
    Column("renewers", "RENEWERS"),
    Column("expires", "EXPIRES"),
    Column("hmac", "HMAC"),
)


@group(
    "token",
    examples=(
        "ottla token create --renewer User:bob --max-lifetime 3600000",
        "ottla token describe --owner User:alice",
        "ottla token renew - < hmac.txt",
    ),
)
def token() -> None:
    """Create, renew, end and describe delegation tokens.

    A user that has logged in makes tokens for programs that shall not have its password. A client logs in by
    SCRAM with the token's id as its user, the HMAC as its password, and tokenauth=true. The brokers need
    delegation.token.secret.key.
    """


@token.command("create", examples=("ottla token create", "ottla token create --renewer User:bob --json"))
@click.option(
    "--renewer", "renewers", multiple=True, metavar="User:NAME", help="May renew and end the token."
)
@click.option("--owner", metavar="User:NAME", help="Whose token it is. [default: the user that asks]")
@click.option(
    "--max-lifetime",
    type=_MILLISECONDS,
    metavar="MS",
    help="Its life, renewals included. [default: the longest]",
)
@asks_cluster
async def create(
    session: Session, renewers: Sequence[str], owner: str | None, max_lifetime: int | None
) -> None:
    """Make a token, and show its id and its HMAC, which is its password.

    With --json the line is {"token_id", "hmac", "owner", "requester", "renewers", "issued_ms", "expires_ms",
    "max_ms"}.
    """
    lifetime_ms = CLUSTERS_CHOICE_MS if max_lifetime is None else max_lifetime
    async with cluster_client(session.access) as client:
        made = await create_token(client, renewers, owner, lifetime_ms)
    if session.output.mode is OutputMode.PEOPLE:
        session.output.facts(
            {
                "token id": made.token_id,
                "HMAC": hmac_text(made.hmac),
                "owner": made.owner,
                "renewers": ", ".join(made.renewers) or "the owner alone",
                "expires": _instant(made.expires_ms),
                "renewable until": _instant(made.max_ms),
            }
        )
        return
    session.output.facts(_row(made), name="token_id")


@token.command(
    "renew", examples=("ottla token renew - < hmac.txt", "ottla token renew - --by 3600000 < hmac.txt")
)
@click.argument("hmac", metavar="HMAC")
@click.option("--by", "by_ms", type=_MILLISECONDS, metavar="MS", help="For so long. [default: the brokers']")
@asks_cluster
async def renew(session: Session, hmac: str, by_ms: int | None) -> None:
    """Let a token live on. With - the HMAC is read from stdin, where no other user of the machine sees it."""
    key = _hmac(hmac)
    async with cluster_client(session.access) as client:
        expires_ms = await renew_token(client, key, CLUSTERS_CHOICE_MS if by_ms is None else by_ms)
    session.output.done(f"the token expires at {_instant(expires_ms)}", {"expires_ms": expires_ms})


@token.command(
    "expire", examples=("ottla token expire - < hmac.txt", "ottla token expire - --in 60000 < hmac.txt")
)
@click.argument("hmac", metavar="HMAC")
@click.option("--in", "in_ms", type=_MILLISECONDS, metavar="MS", help="After so long. [default: at once]")
@asks_cluster
async def expire(session: Session, hmac: str, in_ms: int | None) -> None:
    """End a token. With - the HMAC is read from stdin, where no other user of the machine sees it."""
    key = _hmac(hmac)
    async with cluster_client(session.access) as client:
        expires_ms = await expire_token(client, key, AT_ONCE_MS if in_ms is None else in_ms)
    sentence = "the token has ended" if in_ms is None else f"the token expires at {_instant(expires_ms)}"
    session.output.done(sentence, {"expires_ms": expires_ms})


@token.command("describe", examples=("ottla token describe", "ottla token describe --owner User:a --json"))
@click.option("--owner", "owners", multiple=True, metavar="User:NAME", help="Only tokens of this principal.")
@asks_cluster
async def describe(session: Session, owners: Sequence[str]) -> None:
    """Show the tokens that the user may see, with their HMACs.

    With --json each line is an object as that of `ottla token create`.
    """
    async with cluster_client(session.access) as client:
        found = await describe_tokens(client, owners)
    rows = [_row(each) for each in found]
    if session.output.mode is OutputMode.PEOPLE:
        for row in rows:
            row["renewers"] = " ".join(row["renewers"])
            row["expires"] = _instant(row["expires_ms"])
    session.output.listing(rows, _DESCRIBED, name="token_id", empty="there is no such token")


def _row(one: DelegationToken) -> dict[str, Any]:
    return {
        "token_id": one.token_id,
        "hmac": hmac_text(one.hmac),
        "owner": one.owner,
        "requester": one.requester,
        "renewers": list(one.renewers),
        "issued_ms": one.issued_ms,
        "expires_ms": one.expires_ms,
        "max_ms": one.max_ms,
    }


def _hmac(word: str) -> bytes:
    """The HMAC of a word, or of stdin's first line. Raises BadHmac."""
    return parse_hmac(sys.stdin.readline() if word == "-" else word)


def _instant(milliseconds: int) -> str:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return "never"
