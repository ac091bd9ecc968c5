"""Options that several of the commands take, declared once, and what the log's level does."""

from __future__ import annotations

import argparse
import logging
import sys


def add_pairs(parser: argparse.ArgumentParser, option: str, help: str) -> None:
    """An option of KEY=VALUE that may be repeated; its value is the list of them."""
    parser.add_argument(option, action="append", default=[], metavar="KEY=VALUE", help=help)


def add_log_level(parser: argparse.ArgumentParser) -> None:
    """`--log-level`, in the lower case of logging's names."""
    parser.add_argument(
        "--log-level",
        default="warning",
        choices=("debug", "info", "warning", "error"),
        help="what goes to stderr",
    )


def log_to_stderr(level: str) -> None:
    """One structured line an event."""
    logging.basicConfig(
        stream=sys.stderr, level=level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
