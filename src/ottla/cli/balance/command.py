"""`ottla balance` and its words."""

from __future__ import annotations

from typing import Final

from ottla.cli.frame.commands import LazyGroup
from ottla.cli.frame.entries import Entry

_PLANS: Final = "ottla.cli.balance.plans"

balance: Final = LazyGroup(
    "balance",
    entries={
        "plan": Entry(f"{_PLANS}:plan", "Show what would move for an even load, and change nothing"),
        "run": Entry(f"{_PLANS}:run", "Plan, and carry the plan out; finish what a killed run has begun"),
        "add": Entry(f"{_PLANS}:add", "Give new brokers their share of the replicas"),
        "remove": Entry(f"{_PLANS}:remove", "Move everything off brokers that are to go"),
        "demote": Entry(f"{_PLANS}:demote", "Let brokers lead nothing; their replicas stay"),
        "fix-offline": Entry(f"{_PLANS}:fix_offline", "Move replicas off dead brokers and failed disks"),
        "replicas": Entry(f"{_PLANS}:replicas", "Give topics more replicas, or fewer"),
        "rightsize": Entry("ottla.cli.balance.sizing:rightsize", "Tell how many brokers a load needs"),
        "status": Entry("ottla.cli.balance.executions:status", "Show the execution under way, or the last"),
        "stop": Entry("ottla.cli.balance.executions:stop", "Stop the execution that is under way"),
        "serve": Entry("ottla.cli.servers.balance:serve", "Serve all this over HTTP, as Cruise Control does"),
    },
    help="""Keep brokers evenly loaded: plan moves and elections by goals, and carry them out.

Works on any Kafka. A plan moves hardly more bytes than it must; nothing is changed without a yes.""",
    examples=(
        "ottla balance plan",
        "ottla balance run --yes --throttle 20000000",
        "ottla balance add 4 --yes",
        "ottla balance remove 2 --dry-run",
        "ottla balance rightsize --growth 2",
    ),
)
