"""Asks a cluster on behalf of a command: the first bootstrap server that answers."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from ottla.broker.listeners import parse_address
from ottla.broker.peers.peers import PeerAddress, PeerConnections, PeerUnreachable
from ottla.config.errors import UserError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Message

T = TypeVar("T", bound=Message)

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
DEFAULT_TIMEOUT_MS: Final = 30_000


class CommandError(UserError):
    """The command can't do what was asked; one line that says why."""


class ClusterClient:
    """A connection to a cluster for the length of a command."""

    def __init__(self, servers: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        self._servers = [_address(server.strip()) for server in servers.split(",")]
        self._timeout_ms = timeout_ms
        self._peers = PeerConnections("ottla-cli")

    async def ask(self, request: Message, answer: type[T]) -> T:
        """The answer of the first server that gives one. Raises CommandError."""
        problems = []
        for server in self._servers:
            try:
                response = await self._peers.ask("command", server, request, timeout_ms=self._timeout_ms)
            except PeerUnreachable as problem:
                problems.append(str(problem))
                continue
            assert isinstance(response, answer)
            return response
        raise CommandError("; ".join(dict.fromkeys(problems)))

    def close(self) -> None:
        """Hang up."""
        self._peers.close()


def _address(text: str) -> PeerAddress:
    address = parse_address(text)
    if address is None:
        raise CommandError(f"--bootstrap: {text!r} is not HOST:PORT")
    return PeerAddress(*address)


def require_success(error_code: int, message: str | None, what: str = "") -> None:
    """Raises CommandError for an error code."""
    if error_code != ErrorCode.NONE:
        error = ErrorCode(error_code)
        raise CommandError(f"{what}{': ' if what else ''}{error.name}: {message or error.message}")


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """What every such command has."""
    parser.add_argument(
        "--bootstrap",
        default=DEFAULT_BOOTSTRAP,
        metavar="HOST:PORT,…",
        help="brokers to ask, one after the other (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="write the result as one line of JSON")


def run_command(options: argparse.Namespace, command: Callable[[ClusterClient, Any], Awaitable[Any]]) -> int:
    """Run a command; its exit code. Raises UserError."""

    async def run() -> None:
        client = ClusterClient(options.bootstrap)
        try:
            result = await command(client, options)
        finally:
            client.close()
        if options.json:
            print(json.dumps(result))

    asyncio.run(run())
    return 0


def print_table(rows: list[dict[str, Any]]) -> None:
    """Rows with the same keys, in columns."""
    if not rows:
        return
    texts = [[str(key) for key in rows[0]], *([_shown(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for words in texts:
        print("  ".join(word.ljust(width) for word, width in zip(words, widths, strict=True)).rstrip())


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value)) or "-"
    return "-" if value is None else str(value)
