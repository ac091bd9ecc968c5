"""The conformance suites are a package at the top of the repository, not an installed one."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
