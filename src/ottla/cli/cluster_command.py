"""The common parts of commands that ask a cluster: options, the client, how results are printed."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from ottla.cli.options import add_pairs
from ottla.client.access import DEFAULT_BOOTSTRAP, ClusterAccess
from ottla.client.cluster_requests import ClusterRequests
from ottla.config.errors import UserError
from ottla.config.sources import from_file, from_words, layered, texts
from ottla.protocol.errors import ErrorCode

CLIENT_ID: Final = "ottla-cli"


class CommandError(UserError):
    """The command can't do what the user asked for; one line that says why."""


def require_success(error_code: int, message: str | None, subject: str = "") -> None:
    """Raises CommandError for an error code; its line begins with the subject, a topic's name say."""
    if error_code != ErrorCode.NONE:
        error = ErrorCode(error_code)
        prefix = f"{subject}: " if subject else ""
        raise CommandError(f"{prefix}{error.name}: {message or error.message}")


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that asks a cluster."""
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT,…",
        help="brokers to ask, one after the other (bootstrap.servers of --command-config, else "
        f"{DEFAULT_BOOTSTRAP})",
    )
    parser.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help="a properties file with settings of the Kafka client (TLS, SASL), by librdkafka's names",
    )
    add_pairs(parser, "--set", "one setting of the Kafka client; may be repeated, wins over --command-config")
    parser.add_argument("--json", action="store_true", help="write the result as one line of JSON")


def run_command(
    options: argparse.Namespace, command: Callable[[ClusterRequests, Any], Awaitable[Any]]
) -> int:
    """Run a command; its exit code. Raises UserError."""

    async def run() -> None:
        client = ClusterRequests(_access(options).with_client_id(CLIENT_ID))
        try:
            result = await command(client, options)
        finally:
            await client.close()
        if options.json:
            print(json.dumps(result))

    asyncio.run(run())
    return 0


def _access(options: argparse.Namespace) -> ClusterAccess:
    file = {} if options.command_config is None else from_file(options.command_config)
    given = texts(layered(file, from_words(options.set)))
    bootstrap = given.pop("bootstrap.servers", DEFAULT_BOOTSTRAP)
    access = ClusterAccess(options.bootstrap or bootstrap, given)
    access.require_common_properties()
    return access


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print rows with the same keys, in columns."""
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
