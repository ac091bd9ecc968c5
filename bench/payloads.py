"""Files of records for ProducerPerformance's --payload-file: a line a record, the same for both sides.

The tool draws each record from the file at random. With --record-size it makes up every byte of every record
anew, which for large records is more work than sending them.
"""

from __future__ import annotations

import json
import random
import string
from pathlib import Path

_SEED = 2014
_PATHS = ("/", "/search", "/products/{}", "/products/{}/reviews", "/basket", "/checkout", "/orders/{}")
_AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_6) AppleWebKit/605.1.15 Version/18.4 Safari/605.1.15",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148",
)
_COUNTRIES = ("SE", "DE", "NL", "FR", "PL", "IN", "US", "BR")
_STATUSES = (200, 200, 200, 200, 200, 302, 404, 500)
_FIRST_MILLISECOND = 1_400_000_000_000


def write_letters(path: Path, record_bytes: int, records: int) -> None:
    """`records` lines of `record_bytes` random capital letters, as --record-size draws them."""
    draw = random.Random(_SEED)
    lines = ("".join(draw.choices(string.ascii_uppercase, k=record_bytes)) for _ in range(records))
    path.write_text("\n".join(lines) + "\n", encoding="ascii")


def write_events(path: Path, records: int) -> float:
    """`records` different lines of JSON as a shop's web servers might log them; their mean size in bytes."""
    draw = random.Random(_SEED)
    lines = [_event(draw, _FIRST_MILLISECOND + number * 7) for number in range(records)]
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    return sum(len(line) for line in lines) / records


def _event(draw: random.Random, milliseconds: int) -> str:
    return json.dumps(
        {
            "time_ms": milliseconds,
            "session": f"{draw.getrandbits(64):016x}",
            "user": draw.randrange(2_000_000),
            "path": draw.choice(_PATHS).format(draw.randrange(50_000)),
            "status": draw.choice(_STATUSES),
            "duration_ms": round(draw.lognormvariate(3.5, 0.8), 1),
            "country": draw.choice(_COUNTRIES),
            "agent": draw.choice(_AGENTS),
        },
        separators=(",", ":"),
    )
