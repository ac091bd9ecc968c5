"""What brokers can take, as Cruise Control's `capacity.json` tells it: DISK in MB, NW_IN and NW_OUT in KB/s.

An entry of broker -1 holds for all that have none. CPU is in percent, 100 a core, or `{"num.cores": "8"}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ottla.balance.core.model import Capacity
from ottla.config.errors import UserError

ALL_BROKERS: Final = -1
MAX_BYTES: Final = 16 << 20
MEGABYTE: Final = 1 << 20
KILOBYTE: Final = 1 << 10


class CapacityError(UserError):
    """A file of capacities can't be read; one line that says why."""


def read_capacities(path: Path) -> dict[int, Capacity]:
    """Broker -> its capacity, ALL_BROKERS for the others. Raises CapacityError."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise CapacityError(f"{path}: larger than {MAX_BYTES} bytes, are these capacities?")
        return parse_capacities(json.loads(path.read_text(encoding="utf-8")))
    except OSError as problem:
        raise CapacityError(f"{path}: can't read it: {problem.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise CapacityError(f"{path}: not Cruise Control's capacity.json: {problem!r}") from None


def parse_capacities(content: Any) -> dict[int, Capacity]:
    """As `read_capacities`, of the JSON. Raises ValueError, KeyError, TypeError or AttributeError."""
    found: dict[int, Capacity] = {}
    for one in content["brokerCapacities"]:
        capacity: Mapping[str, Any] = one["capacity"]
        found[int(one["brokerId"])] = Capacity(
            disk=_scaled(_disk(capacity.get("DISK")), MEGABYTE),
            nw_in=_scaled(capacity.get("NW_IN"), KILOBYTE),
            nw_out=_scaled(capacity.get("NW_OUT"), KILOBYTE),
            cpu=_cpu(capacity.get("CPU")),
        )
    return found


def _disk(value: Any) -> Any:
    """A number, or the sum over the directories of a broker with several disks."""
    return sum(float(each) for each in value.values()) if isinstance(value, dict) else value


def _scaled(value: Any, unit: int) -> float | None:
    return None if value is None else _positive(float(value)) * unit


def _cpu(value: Any) -> float | None:
    if isinstance(value, dict):
        return _positive(float(value["num.cores"])) * 100
    return None if value is None else _positive(float(value))


def _positive(value: float) -> float:
    if not 0 < value < float("inf"):
        raise ValueError(f"a capacity of {value}")
    return value
