"""`ottla demo --connect`: the sample pipeline's six steps, over real tweets, with two applications."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.servers.cluster import free_port

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_every_tweet_is_in_every_step_exactly_once(tmp_path: Path) -> None:
    words = ["demo", "--connect", "--once", "--limit", "600", "--listen", f"127.0.0.1:{free_port()}"]
    done = subprocess.run(
        [sys.executable, "-m", "ottla", *words, "--data", str(tmp_path / "demo")],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["exactly_once"]
    assert report["pipeline.tweets"] == report["documents"] == report["pipeline.documents"] == 600
    assert 0 < report["pipeline.opinions"] == report["opinions"] < 600
