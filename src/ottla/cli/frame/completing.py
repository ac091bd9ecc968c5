"""Words that a shell completes: names of topics, groups and profiles, live from the cluster.

A cluster that does not answer at once gives no names, and no error: the user is typing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from ottla.client.cluster_requests import ClusterRequests

PROG: Final = "ottla"
COMPLETE_VARIABLE: Final = "_OTTLA_COMPLETE"
"""The variable by which a shell's script asks for completions; its value says the shell."""
TIMEOUT_SECONDS: Final = 1.5
MAX_NAMES: Final = 2_000


def complete(command: click.Command, instruction: str) -> int:
    """Write the words that complete a line, as the variables of a shell's script say; the exit code.

    instruction: the value of COMPLETE_VARIABLE.
    """
    from click.shell_completion import shell_complete

    try:
        return shell_complete(command, {}, PROG, COMPLETE_VARIABLE, instruction)
    except Exception:  # a package is missing, say: a line about it would break the line that the user types
        return 1


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of the cluster's topics; internal ones only if the word begins so."""
    names = _asked(ctx, _topics)
    return _items((name for name in names if incomplete.startswith("_") or name[:1] != "_"), incomplete)


def complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of the cluster's groups, of all kinds."""
    return _items(_asked(ctx, _groups), incomplete)


def complete_profiles(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of the user's profiles."""
    from ottla.cli.frame.profiles import Profiles
    from ottla.config.errors import UserError

    try:
        return _items(Profiles().names(), incomplete)
    except UserError:
        return []


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    fitting = sorted(name for name in names if name.startswith(incomplete) and name.isprintable())
    return [CompletionItem(name) for name in fitting[:MAX_NAMES]]


def _asked(ctx: click.Context, asking: Callable[[ClusterRequests], Awaitable[list[str]]]) -> list[str]:
    """The names that the cluster of the command line gives in time."""
    import asyncio
    import logging

    from ottla.cli.frame.cluster_choice import access_of

    logging.disable(logging.CRITICAL)

    async def in_time() -> list[str]:
        from ottla.client.cluster_requests import ClusterRequests

        requests = ClusterRequests(access_of(ctx.params), TIMEOUT_SECONDS)
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return await asking(requests)
        finally:
            await requests.close()

    try:
        return asyncio.run(in_time())
    except Exception:  # whatever it is, a line of it would break the line that the user types
        return []


async def _topics(requests: ClusterRequests) -> list[str]:
    from ottla.protocol.messages.metadata_request import MetadataRequest
    from ottla.protocol.messages.metadata_response import MetadataResponse

    # Not `requests.topics()`: that would first ask for the brokers, whose addresses need not be reachable.
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    answer = await requests.ask(request, MetadataResponse)
    return [topic.name for topic in answer.topics if topic.name]


async def _groups(requests: ClusterRequests) -> list[str]:
    from ottla.protocol.messages.list_groups_request import ListGroupsRequest
    from ottla.protocol.messages.list_groups_response import ListGroupsResponse

    answers = await requests.ask_all(ListGroupsRequest(), ListGroupsResponse)
    return [
        group.group_id
        for answer in answers.values()
        if isinstance(answer, ListGroupsResponse)
        for group in answer.groups
    ]
