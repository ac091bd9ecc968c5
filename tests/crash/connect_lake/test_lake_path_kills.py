"""kill -9 of everything that stands between a file and two lakes: each line is in each of them once.

OTTLA_DRILL_KILLS says how many kills (30 by default), OTTLA_SEED what they are drawn from: a kill falls upon
what runs just then, so two runs of one seed are alike and not the same.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from support.connect.lake_path import lake_path

pytestmark = [pytest.mark.spark, pytest.mark.long]
KILLS = int(os.environ.get("OTTLA_DRILL_KILLS", "30"))
SEED = int(os.environ.get("OTTLA_SEED") or random.getrandbits(32))


@pytest.mark.timeout(7200)
def test_each_line_of_a_file_is_in_the_topic_and_in_both_lakes_once_after_many_kills(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    with lake_path(tmp_path, SEED) as path:
        path.begin()
        for number in range(KILLS):
            path.grow(400)
            before = path.commits()
            victim = path.strike()
            print(f"{number + 1}: {victim.value}", flush=True)
            # the next blow hits what is at work, or, one time of three, what is still starting
            if path.chance.random() < 0.67:
                path.wait_for_commits(before)
        path.wait_for_all()
        path.stop_workers()
        path.assert_each_line_once()
        counts = ", ".join(f"{count} {victim.value}" for victim, count in sorted(path.blows.items(), key=str))
        print(f"seed {SEED}: {path.sent} lines, {path.commits()} commits; {counts}")
