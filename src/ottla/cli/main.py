"""The `ottla` command: finds the subcommand and hands it the rest of the line.

Each subcommand is a module with `main(argv) -> exit code`, imported only when it is called: `ottla broker`
must not wait for PySpark. An error that the user has caused is printed here, in one place for all commands.
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Sequence

from ottla import __version__
from ottla.config.errors import UsageError, UserError

#: Name -> (module, what it does)
COMMANDS: dict[str, tuple[str, str]] = {
    "broker": ("ottla.cli.broker", "run a broker that any Kafka client can use, or several"),
    "up": ("ottla.cli.up", "run the platform on this machine: broker, Schema Registry, REST Proxy"),
    "quorum": ("ottla.cli.quorum", "show and change the controllers of a cluster"),
    "partition": ("ottla.cli.partition", "move replicas between brokers, elect leaders"),
    "registry": ("ottla.cli.registry", "run a Schema Registry on any Kafka cluster"),
    "rest": ("ottla.cli.rest", "run a REST Proxy to any Kafka cluster"),
    "streams": ("ottla.cli.streams", "run, describe and reset applications of the Streams DSL on Spark"),
    "demo": ("ottla.cli.demo", "run the sample pipeline: real tweets through a broker and Spark"),
}

EXIT_FAILURE = 1
EXIT_USAGE = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0 if words else EXIT_USAGE
    if words[0] in ("-V", "--version"):
        print(f"ottla {__version__}")
        return 0
    command = COMMANDS.get(words[0])
    if command is None:
        print(f"ottla: there is no command {words[0]!r}; `ottla --help` lists them", file=sys.stderr)
        return EXIT_USAGE
    # Modules stay: a collector that looks through them as they come costs a broker 12 ms of its start.
    gc.disable()
    try:
        module = importlib.import_module(command[0])
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.startswith("ottla"):
            raise
        print(
            f"ottla: `ottla {words[0]}` needs the package {missing.name}: pip install 'ottla[all]'",
            file=sys.stderr,
        )
        return EXIT_FAILURE
    finally:
        gc.enable()
    try:
        code: int = module.main(words[1:])
    except UserError as error:
        sys.stderr.write(error.trace)
        print(f"ottla {words[0]}: {error}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILURE
    return code


def _usage() -> str:
    lines = ["usage: ottla COMMAND [OPTION]...", "", "commands:"]
    lines += [f"  {name:10} {summary}" for name, (_, summary) in COMMANDS.items()]
    lines += ["", "`ottla COMMAND --help` tells a command's options; `ottla --version` the version."]
    return "\n".join(lines)
