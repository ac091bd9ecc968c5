"""Changes of mirror topics' settings by this broker: how leaders and coordinators of links report.

A report is an item that is appended to a list (`ottla.link.ends`, `.epochs`, `.told`): leaders on several
brokers can report at once, and one that reports again after a kill changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.core.decisions.config_changes import Operation
from ottla.core.image.image import TOPIC_RESOURCE
from ottla.protocol.errors import ErrorCode, error_class
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse

if TYPE_CHECKING:
    from ottla.broker.links.node import LinksNode

TIMEOUT_MS: Final = 10_000


class Change(NamedTuple):
    """A change of one setting."""

    name: str
    operation: Operation
    value: str | None


def set_to(values: Mapping[str, str | None]) -> list[Change]:
    """The changes that give settings these values, None for none."""
    return [
        Change(name, Operation.DELETE if value is None else Operation.SET, value)
        for name, value in values.items()
    ]


async def change_topics(node: LinksNode, changes: Mapping[str, list[Change]]) -> dict[str, str]:
    """Change settings of topics, durably; the refusals by topic. Raises RequestTimedOut."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=TOPIC_RESOURCE,
                resource_name=topic,
                configs=[
                    AlterableConfig(name=each.name, config_operation=each.operation, value=each.value)
                    for each in wanted
                ],
            )
            for topic, wanted in changes.items()
        ]
    )
    answer = await node.controller_channel.ask(request, timeout_ms=TIMEOUT_MS)
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    return {
        each.resource_name: f"{ErrorCode(each.error_code).name}: {each.error_message or ''}"
        for each in answer.responses
        if each.error_code != ErrorCode.NONE
    }


async def report(node: LinksNode, topic: str, name: str, items: list[str]) -> None:
    """Add items to a list of a mirror topic, durably. Raises KafkaError."""
    refused = await change_topics(node, {topic: [Change(name, Operation.APPEND, ",".join(items))]})
    if refused:
        raise error_class(ErrorCode.INVALID_CONFIG)(refused[topic])
