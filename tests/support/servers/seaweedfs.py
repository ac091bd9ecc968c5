"""A server of S3: SeaweedFS in one process, from its package on PyPI."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyarrow import fs

from support.servers.cluster import free_port

START_TIMEOUT_S = 60
USER, SECRET = "test", "test"


def weed_program() -> Path | None:
    """SeaweedFS's program beside this Python, None if it is not installed."""
    program = Path(sys.executable).parent / "weed"
    return program if program.is_file() else None


@contextmanager
def seaweedfs(program: Path, directory: Path, bucket: str) -> Iterator[str]:
    """The address of a running server with an empty bucket."""
    directory.mkdir(parents=True)
    port = free_port()
    credentials = [{"accessKey": USER, "secretKey": SECRET}]
    identity = {"name": USER, "credentials": credentials, "actions": ["Admin", "Read", "Write", "List"]}
    (directory / "s3.json").write_text(json.dumps({"identities": [identity]}))
    ports = [f"-{name}={free_port()}" for name in _PORTS]
    command = [str(program), "server", f"-dir={directory}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3"]
    with (directory / "weed.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, f"-s3.port={port}", f"-s3.config={directory / 's3.json'}", *_SIZES, *ports],
            stdout=log,
            stderr=log,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _made(address, bucket):
            assert process.poll() is None and time.monotonic() < deadline, (
                directory / "weed.log"
            ).read_text()
            time.sleep(0.2)
        yield address
    finally:
        process.kill()
        process.wait()


_SIZES = ("-volume.max=20", "-master.volumeSizeLimitMB=64")
_PORTS = (
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "s3.port.grpc",
)


def s3_files(address: str) -> fs.S3FileSystem:
    """The server's files, for pyarrow."""
    return fs.S3FileSystem(
        access_key=USER, secret_key=SECRET, endpoint_override=address, allow_bucket_creation=True
    )


def _made(address: str, bucket: str) -> bool:
    try:
        s3_files(address).create_dir(bucket)
    except OSError:
        return False
    return True
