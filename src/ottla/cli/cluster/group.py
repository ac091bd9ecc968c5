"""`ottla group`: what its commands are, each of which is imported when it is called."""

from __future__ import annotations

from typing import Final

from ottla.cli.frame.commands import LazyGroup
from ottla.cli.frame.entries import Entry

_DESCRIBING: Final = "ottla.cli.cluster.group_describing"
_CHANGES: Final = "ottla.cli.cluster.group_changes"

group = LazyGroup(
    "group",
    entries={
        "list": Entry("ottla.cli.cluster.group_listing:list_", "list groups, all or by state and type"),
        "describe": Entry(f"{_DESCRIBING}:describe", "tell members, offsets, and how far groups are behind"),
        "reset": Entry("ottla.cli.cluster.group_reset:reset", "move offsets of groups that have stopped"),
        "delete": Entry(f"{_CHANGES}:delete", "delete groups that have no members"),
        "delete-offsets": Entry(f"{_CHANGES}:delete_offsets", "forget a group's offsets of topics"),
        "remove-member": Entry(f"{_CHANGES}:remove_member", "take members out of a group"),
    },
    help="""List, describe, reset and delete groups: of consumers, share consumers, streams applications.

GROUP may be a pattern as in a shell: 'orders-*' in quotes.""",
    examples=(
        "ottla group list",
        "ottla group describe orders",
        "ottla group reset orders --to earliest --all-topics --execute",
    ),
)
