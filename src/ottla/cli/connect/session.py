"""The options of every command that asks a Connect cluster, and what it is given: a session."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec

import click
from click.shell_completion import CompletionItem

from ottla.cli.cluster.outcomes import Outcomes
from ottla.cli.frame.cluster import mode_of, output_options
from ottla.cli.frame.errors import did_you_mean
from ottla.cli.frame.output import Output
from ottla.cli.frame.rest_client import credential_options, properties_of
from ottla.client.connect_api import CONNECT, URL_VARIABLE, ConnectApi, ConnectRefusal
from ottla.client.errors import ClusterError
from ottla.client.rest_access import RestAccess
from ottla.config.errors import UserError

P = ParamSpec("P")

NOT_FOUND: Final = 404


class Session:
    """One run of a command: the workers that are asked, and where results go."""

    __slots__ = ("api", "output")

    def __init__(self, access: RestAccess, output: Output) -> None:
        self.api = ConnectApi(access)
        self.output = output

    def each(self, names: Iterable[str], act: Callable[[str], tuple[str, str]]) -> int:
        """Act on connectors, one after the other; the exit code. Those that fail are told; the others go on.

        act: does it, and returns the sentence for people and the word of the change.
        """
        outcomes = Outcomes(self.output)
        for name in dict.fromkeys(names):
            try:
                sentence, word = act(name)
            except ClusterError as problem:
                outcomes.failed(self.explained(name, problem))
            else:
                outcomes.done(sentence, {"name": name, "done": word})
        return outcomes.exit_code

    def explained(self, name: str, problem: ClusterError) -> UserError:
        """The error of a request about a connector, with names that are alike where there is none."""
        if not isinstance(problem, ConnectRefusal) or problem.status != NOT_FOUND:
            return problem
        try:
            known = self.api.connectors()
        except ClusterError:
            return problem
        if name in known:
            return problem
        return UserError(f"there is no connector {name}{did_you_mean(name, known)}")


def asks_connect(function: Callable[Concatenate[Session, P], Any]) -> Callable[..., Any]:
    """Add the options of a command that asks a Connect cluster; the function is given a Session first."""

    @functools.wraps(function)
    def with_session(*args: P.args, **options: P.kwargs) -> Any:
        values: dict[str, Any] = dict(options)
        access = access_of(values.pop("url"), values.pop("command_config"), values.pop("set_words"))
        mode = mode_of(values.pop("json"), values.pop("quiet"))
        return function(Session(access, Output(mode)), *args, **values)

    decorated: Callable[..., Any] = output_options(with_session)
    for option in (
        credential_options,
        click.option(
            "--url",
            metavar="URL,…",
            help=f"Workers to ask, one after the other. [or {URL_VARIABLE}; default: {CONNECT.default_url}]",
        ),
    ):
        decorated = option(decorated)
    return decorated


def access_of(url: str | None, command_config: Path | None, set_words: tuple[str, ...]) -> RestAccess:
    """How to reach the workers that options and environment name. Raises UserError."""
    given = properties_of(command_config, set_words)
    return RestAccess.from_properties(
        CONNECT, url or os.environ.get(URL_VARIABLE) or CONNECT.default_url, given
    )


def complete_connectors(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of connectors, for a shell; none where Connect does not answer."""
    try:
        words = {name: ctx.params.get(name) for name in ("url", "command_config", "set_words")}
        access = access_of(words["url"], words["command_config"], words["set_words"] or ())
        names = ConnectApi(access).connectors()
    except Exception:  # whatever it is, a line of it would break the line that the user types
        return []
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


names_argument = click.argument(
    "names", nargs=-1, required=True, metavar="NAME…", shell_complete=complete_connectors
)
name_argument = click.argument("name", metavar="NAME", shell_complete=complete_connectors)
