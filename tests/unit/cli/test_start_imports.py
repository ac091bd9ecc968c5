"""The modules that a broker has loaded when its port is open: they are half of a start's processor time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

# `ottla broker` as the command runs it; in place of its ready line it prints the modules, and stops.
START = """
import builtins, json, os, signal, sys

say = builtins.print

def tell_modules(*words, **options):
    say(json.dumps(sorted(sys.modules)), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

builtins.print = tell_modules

from ottla.cli.main import main

sys.exit(main(["broker", "--data", sys.argv[1], "--listen", "127.0.0.1:0"]))
"""

#: Packages of which a start needs nothing, each with its parts.
NOT_AT_THE_START = (
    # of Python: large, and wanted by no step of a start
    *("email", "html", "http", "importlib.metadata", "multiprocessing", "pydoc", "sqlite3", "unittest"),
    *("urllib.request", "xml", "zipfile"),
    # of PyPI: for the other commands
    *("aiokafka", "confluent_kafka", "httpx", "numpy", "orjson", "pandas", "pyarrow", "pyspark", "requests"),
    *("starlette", "uvicorn"),
    # of ottla: handlers and state machines come with their first request, or their first partition
    *("ottla.broker.handlers.coordinators", "ottla.broker.handlers.records"),
    *("ottla.broker.coordinators.coordinator_shard", "ottla.broker.share.share_partitions"),
    *("ottla.core.groups", "ottla.core.share", "ottla.core.strays", "ottla.core.transactions.shard"),
    *("ottla.broker.metrics", "ottla.metrics.endpoint", "ottla.metrics.exposition", "ottla.metrics.tables"),
    *("ottla.storage.compaction.cleaning", "ottla.storage.compaction.worker"),
    *("ottla.client", "ottla.pipeline", "ottla.registry", "ottla.replicated", "ottla.rest"),
    *("ottla.schemas", "ottla.streams", "ottla.web"),
)
#: The modules of ottla that a broker on an empty directory has loaded, and some room. By six of them it knows
#: that it has no links.
MOST_OF_OTTLA = 273


def test_a_start_loads_no_module_that_it_does_not_need(tmp_path: Path) -> None:
    # when
    started = subprocess.run(
        [sys.executable, "-c", START, str(tmp_path / "data")], capture_output=True, text=True, timeout=60
    )
    # then
    assert started.returncode == 0, started.stderr
    loaded = json.loads(started.stdout)
    needless = [
        name for name in loaded if f"{name}.".startswith(tuple(f"{each}." for each in NOT_AT_THE_START))
    ]
    assert needless == []
    assert len([name for name in loaded if name.split(".")[0] == "ottla"]) <= MOST_OF_OTTLA


LISTING = """
import json, sys

from ottla.cli.main import main

main(["topic", "list", "--bootstrap", "127.0.0.1:1"])
print(json.dumps(sorted(sys.modules)))
"""

#: Packages that a listing must not wait for: it is to be done in a quarter of a second.
NOT_FOR_A_LISTING = (
    *(
        "email",
        "html",
        "http",
        "importlib.metadata",
        "multiprocessing",
        "sqlite3",
        "unittest",
        "xml",
    ),
    *("aiokafka", "confluent_kafka", "cramjam", "httpx", "orjson", "pyspark", "requests", "rich", "uvloop"),
    *("ottla.broker", "ottla.core", "ottla.storage", "ottla.pipeline", "ottla.schemas", "ottla.web"),
    *("ottla.protocol.records", "ottla.cli.servers", "ottla.cli.cluster.topic_changes"),
)
MOST_OF_OTTLA_FOR_A_LISTING = 90


def test_a_listing_loads_no_module_that_it_does_not_need() -> None:
    started = subprocess.run(
        [sys.executable, "-c", LISTING], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = json.loads(started.stdout)
    needless = tuple(f"{each}." for each in NOT_FOR_A_LISTING)
    assert [name for name in loaded if f"{name}.".startswith(needless)] == []
    assert len([name for name in loaded if name.split(".")[0] == "ottla"]) <= MOST_OF_OTTLA_FOR_A_LISTING


def test_the_checksum_of_the_start_is_that_of_its_package() -> None:
    code = (
        "import sys; from ottla.protocol.crc import crc32c as ours; assert 'crc32c' not in sys.modules; "
        "from crc32c import crc32c; assert ours is crc32c; assert ours(b'123456789') == 0xE3069283"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
