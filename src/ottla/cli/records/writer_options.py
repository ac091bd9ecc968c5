"""Options of the commands that write batches of records."""

from __future__ import annotations

from typing import Final

import click

DEFAULT_BATCH_BYTES: Final = 512 << 10
CODECS: Final = ["none", "gzip", "snappy", "lz4", "zstd"]

compression_option: Final = click.option(
    "--compression",
    "-z",
    type=click.Choice(CODECS),
    default="none",
    show_default=True,
    help="How batches are compressed.",
)
batch_bytes_option: Final = click.option(
    "--batch-bytes",
    type=click.IntRange(1, 1 << 30),
    default=DEFAULT_BATCH_BYTES,
    show_default=True,
    help="About how large batches are, uncompressed.",
)
