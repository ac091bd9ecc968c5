"""The `ottla` command as it was before it knew Kafka's partitions of groups; and one that dies half way.

python -m support.servers.older_ottla older broker …    keeps names in the older partitions, and says nothing
else python -m support.servers.older_ottla 3 broker …        this version, killed at the third step of
bringing strays home
"""

from __future__ import annotations

import functools
import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.broker.controller import lifecycle
from ottla.broker.coordinators import coordinator_partitions
from ottla.broker.coordinators.coordinator_partitions import CoordinatorPartitions
from ottla.broker.coordinators.coordinator_routing import CoordinatorRouting
from ottla.broker.handlers.cluster import api_versions
from ottla.core.coordination.partitioning import older_partition_for
from ottla.core.image.features import SUPPORTED_FEATURES

MODULE = "support.servers.older_ottla"
ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join(
        str(path) for path in (Path(ottla.__path__[0]).parent, Path(__file__).parents[2])
    )
}


async def _not_settled(partitions: CoordinatorPartitions) -> None:
    """An older broker asks no other broker."""


def make_older(patch: pytest.MonkeyPatch) -> None:
    """Let the brokers of this process be older ones, until the patch is undone."""
    patch.setattr(coordinator_partitions, "partition_for", older_partition_for)
    patch.setattr(CoordinatorPartitions, "settle", _not_settled)
    patch.setattr(CoordinatorRouting, "_home_of", lambda routing, partition: None)
    patch.setattr(lifecycle, "REGISTERED_FEATURES", SUPPORTED_FEATURES)
    apis = [each for each in api_versions._BROKER_APIS if each != coordinator_partitions.KAFKAS_API]
    patch.setattr(api_versions, "_BROKER_APIS", apis)


def _die_at(last_step: int, patch: pytest.MonkeyPatch) -> None:
    """Kill the process at a step: before or after a copy, before or after tombstones."""
    from ottla.broker.coordinators.stray_homing import _Homing

    steps = itertools.count(1)

    def step() -> None:
        if next(steps) == last_step:
            os.kill(os.getpid(), signal.SIGKILL)

    real_check, real_delete = _Homing._check_still_here, _Homing._delete

    def check(homing: _Homing) -> None:
        step()
        real_check(homing)

    @functools.wraps(real_delete)
    async def delete(homing: _Homing, *arguments: Any) -> None:
        step()
        await real_delete(homing, *arguments)
        step()

    patch.setattr(_Homing, "_check_still_here", check)
    patch.setattr(_Homing, "_delete", delete)


def main(run: Callable[[], int]) -> int:
    patch = pytest.MonkeyPatch()
    what = sys.argv.pop(1)
    if what == "older":
        make_older(patch)
    else:
        _die_at(int(what), patch)
    return run()


if __name__ == "__main__":
    from ottla.cli.main import main as ottla_main

    sys.exit(main(ottla_main))
