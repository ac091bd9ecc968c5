"""The seeds that once found a bug, with its description. `make test` always runs them."""

from __future__ import annotations

SEEDS: dict[int, str] = {
    2: "fetches that waited on one partition woke each other for ever (simulated shell)",
    24: "a node whose clean stop outlived the faults was never started again (faults)",
    84: "an epoch that began at the log's end stayed when the log was cut there: cut again for ever (disk)",
    218: "a node lost power while the one that kept its records had not registered (faults)",
    23606: "calm was called while a follower still had a tail that was never committed (end of the run)",
    29109: "a late registration of an earlier life replaced the newer one for good (simulated shell)",
}
