"""Real HTTP clients against a service: wrk for many requests, curl for one request that streams."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.errors import BenchError, tail

CURL_TIMEOUT_SECONDS: Final = 300


@dataclass(frozen=True, slots=True)
class Load:
    """The figures that wrk printed."""

    requests: int
    seconds: float


def wrk(
    url: str, script: Path, *, seconds: int, connections: int, threads: int = 1, arguments: Sequence[str] = ()
) -> Load:
    """Run wrk with a Lua script. Raises BenchError when a request failed or was not answered with 2xx."""
    program = shutil.which("wrk")
    if program is None:
        raise BenchError("wrk is not installed: apt-get install wrk")
    command = [program, f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s"]
    command += ["-s", str(script), url, "--", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + 60)
    text = done.stdout + done.stderr
    found = re.search(r"(\d+) requests in ([\d.]+)(ms|s|m),", text)
    if done.returncode != 0 or found is None or "Non-2xx" in text or "Socket errors" in text:
        raise BenchError(f"wrk at {url}:\n{tail(text)}")
    unit = {"ms": 0.001, "s": 1.0, "m": 60.0}[found.group(3)]
    return Load(int(found.group(1)), float(found.group(2)) * unit)


def curl_stream(url: str, body: Path, content_type: str, answers: Path) -> float:
    """Send a file as one chunked request and write the answer to a file; returns the seconds it took.

    Raises BenchError if the answer is not 200.
    """
    program = shutil.which("curl")
    if program is None:
        raise BenchError("curl is not installed: apt-get install curl")
    command = [program, "-sS", "-X", "POST", "-T", str(body), "-H", f"Content-Type: {content_type}"]
    command += [
        "-H",
        "Transfer-Encoding: chunked",
        "-H",
        "Expect:",
        "-o",
        str(answers),
        "-w",
        "%{http_code}",
        url,
    ]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=CURL_TIMEOUT_SECONDS)
    seconds = time.perf_counter() - began
    if done.returncode != 0 or done.stdout.strip() != "200":
        raise BenchError(f"curl at {url}: {done.stdout} {tail(done.stderr)}")
    return seconds
