"""Words that a shell completes: names of topics, groups and profiles, live from the cluster.

A cluster that does not answer at once gives no names, and no error: the user is typing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from ottla.client.access import ClusterAccess

TIMEOUT_SECONDS: Final = 1.5
MAX_NAMES: Final = 2_000


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


def _asked(ctx: click.Context, asking: Callable[[ClusterAccess], Awaitable[list[str]]]) -> list[str]:
    """The names that the cluster of the command line gives in time."""
    import asyncio
    import logging

    from ottla.cli.frame.cluster import access_of

    logging.disable(logging.CRITICAL)

    async def in_time(access: ClusterAccess) -> list[str]:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await asking(access)

    try:
        access = access_of(ctx.params).with_request_timeout_ms(int(TIMEOUT_SECONDS * 1_000))
        return asyncio.run(in_time(access))
    except Exception:  # whatever it is, a line of it would break the line that the user types
        return []


async def _topics(access: ClusterAccess) -> list[str]:
    from ottla.protocol.messages.metadata_request import MetadataRequest
    from ottla.protocol.messages.metadata_response import MetadataResponse

    answer = await _first_answer(access, MetadataRequest(topics=None, allow_auto_topic_creation=False))
    assert isinstance(answer, MetadataResponse)
    return [topic.name for topic in answer.topics if topic.name]


async def _groups(access: ClusterAccess) -> list[str]:
    from ottla.client.kafka_requests import NodeConnections
    from ottla.protocol.messages.list_groups_request import ListGroupsRequest
    from ottla.protocol.messages.metadata_request import MetadataRequest

    brokers = (await _first_answer(access, MetadataRequest(topics=[]))).brokers
    nodes = NodeConnections(access)
    try:
        answers = [await nodes.ask(each.host, each.port, ListGroupsRequest()) for each in brokers]
    finally:
        await nodes.close()
    return [group.group_id for answer in answers for group in answer.groups]


async def _first_answer(access: ClusterAccess, request: Any) -> Any:
    """The answer of the first bootstrap server that gives one. Raises OSError if none does."""
    from ottla.client.kafka_requests import NodeConnections, NodeUnreachable

    nodes = NodeConnections(access)
    try:
        for address in access.addresses():
            try:
                return await nodes.ask(address.host, address.port, request)
            except NodeUnreachable:
                continue
    finally:
        await nodes.close()
    raise OSError("no server answers")
