"""The options of every command that asks a cluster, and what it is given: a session."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec

import click

from ottla.cli.frame.cluster_choice import BOOTSTRAP_VARIABLE, PROFILE_VARIABLE, access_of
from ottla.cli.frame.output import Output, OutputMode
from ottla.client.access import DEFAULT_BOOTSTRAP, ClusterAccess
from ottla.config.errors import UsageError

P = ParamSpec("P")

CLIENT_ID: Final = "ottla-cli"


class Session:
    """One run of a command that asks a cluster: how to reach it, and where results go.

    asked: the values of the options that name the cluster.
    """

    __slots__ = ("_access", "_asked", "output")

    def __init__(self, asked: Mapping[str, Any], output: Output) -> None:
        self._asked = asked
        self._access: ClusterAccess | None = None
        self.output = output

    @property
    def access(self) -> ClusterAccess:
        """How to reach the cluster; files are read when this is first asked for. Raises UserError."""
        if self._access is None:
            self._access = access_of(self._asked)
        return self._access


def asks_cluster(function: Callable[Concatenate[Session, P], Any]) -> Callable[..., Any]:
    """Add the options of a command that asks a cluster; the function's first argument is the `Session`.

    The function may be async; a number that it returns is the exit code.
    """
    return _asking(function, ("--command-config", "--config"))


def asks_cluster_without_config(function: Callable[Concatenate[Session, P], Any]) -> Callable[..., Any]:
    """As `asks_cluster`, for a command with another `--config`: the client's is `--command-config` alone."""
    return _asking(function, ("--command-config",))


def _asking(
    function: Callable[Concatenate[Session, P], Any], config_options: tuple[str, ...]
) -> Callable[..., Any]:
    @functools.wraps(function)
    def with_session(*args: P.args, **options: P.kwargs) -> Any:
        values: dict[str, Any] = dict(options)
        asked = {name: values.pop(name) for name in ("bootstrap", "profile", "command_config", "set_words")}
        mode = mode_of(values.pop("json"), values.pop("quiet"))
        result = function(Session(asked, Output(mode)), *args, **values)
        if inspect.iscoroutine(result):
            from ottla.cli.frame.running import run_async

            return run_async(result)
        return result

    return cluster_options(config_options)(output_options(with_session))


def cluster_options(config_options: tuple[str, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options that name a cluster."""
    from ottla.cli.frame.completing import complete_profiles

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(
            (
                click.option(
                    "--bootstrap",
                    metavar="HOST:PORT,…",
                    help=f"Brokers to ask, one after the other. [or {BOOTSTRAP_VARIABLE}; default: the "
                    f"profile's, else {DEFAULT_BOOTSTRAP}]",
                ),
                click.option(
                    "--profile",
                    metavar="NAME",
                    shell_complete=complete_profiles,
                    help=f"The cluster by its name in `ottla profile`. [or {PROFILE_VARIABLE}; default: the "
                    "current one]",
                ),
                click.option(
                    *config_options,
                    "command_config",
                    type=click.Path(path_type=Path),
                    metavar="FILE",
                    help="A properties file with settings of the Kafka client (TLS, SASL), by librdkafka's "
                    "names or Java's.",
                ),
                click.option(
                    "--set",
                    "set_words",
                    multiple=True,
                    metavar="KEY=VALUE",
                    help="One setting of the Kafka client; may be repeated, wins over file and profile.",
                ),
            )
        ):
            function = option(function)
        return function

    return decorated


def output_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json and --quiet."""
    function = click.option("--quiet", "-q", is_flag=True, help="Write only names, one a line.")(function)
    return click.option("--json", is_flag=True, help="Write JSON, one object a line.")(function)


def mode_of(json: bool, quiet: bool) -> OutputMode:
    """The mode that --json and --quiet ask for. Raises UsageError for both."""
    if json and quiet:
        raise UsageError("give --json or --quiet, not both")
    return OutputMode.JSON if json else OutputMode.QUIET if quiet else OutputMode.PEOPLE
