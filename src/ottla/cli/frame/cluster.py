"""Which cluster a command asks, and the options that every command has that asks one.

The first of three places that names a cluster gives it, whole:

1. the command line: --bootstrap, --profile, or bootstrap.servers in --set or --command-config;
2. the environment: OTTLA_BOOTSTRAP, OTTLA_PROFILE;
3. the current profile, `ottla profile use`;

else it is 127.0.0.1:9092. In one place servers and a profile may both be named: the profile's settings are
for those servers then. A profile of a lower place is left alone, so that no password is sent to a server that
it is not for. --set wins over --command-config, and both over a profile's settings.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec

import click

from ottla.cli.frame.output import Output, OutputMode
from ottla.client.access import DEFAULT_BOOTSTRAP, ClusterAccess
from ottla.config.errors import UsageError
from ottla.config.sources import Given, from_file, from_words, layered, texts

P = ParamSpec("P")

BOOTSTRAP_VARIABLE: Final = "OTTLA_BOOTSTRAP"
PROFILE_VARIABLE: Final = "OTTLA_PROFILE"
BOOTSTRAP_SERVERS: Final = "bootstrap.servers"
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


def access_of(asked: Mapping[str, Any]) -> ClusterAccess:
    """How to reach the cluster that options and environment name. Raises UserError."""
    from ottla.cli.frame.profiles import Profiles

    file: Path | None = asked.get("command_config")
    own = layered({} if file is None else from_file(file), from_words(asked.get("set_words") or ()))
    bootstrap, profile = _first_place(asked, own)
    given = texts(layered({} if profile is None else Profiles().read(profile), own))
    servers = given.pop(BOOTSTRAP_SERVERS, DEFAULT_BOOTSTRAP)
    access = ClusterAccess(bootstrap or servers, given)
    access.require_common_properties()
    return access


def _first_place(asked: Mapping[str, Any], own: Mapping[str, Given]) -> tuple[str | None, str | None]:
    """The servers and the profile of the first place that names a cluster."""
    from ottla.cli.frame.profiles import Profiles

    bootstrap, profile = asked.get("bootstrap") or None, asked.get("profile") or None
    if bootstrap or profile or BOOTSTRAP_SERVERS in own:
        return bootstrap, profile
    bootstrap, profile = os.environ.get(BOOTSTRAP_VARIABLE), os.environ.get(PROFILE_VARIABLE)
    if bootstrap or profile:
        return bootstrap or None, profile or None
    return None, Profiles().current()
