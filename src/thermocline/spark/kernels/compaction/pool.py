"""Where Arrow takes its memory from while a bin is rewritten.

A bin's batches come and go in tens of megabytes. Arrow's usual pool (mimalloc) takes them in huge pages, gives them back between row
groups and has the kernel clear them again; jemalloc takes small pages and keeps them for a while, which is less processor time.
"""

from __future__ import annotations

import pyarrow as pa

_KEPT_MILLISECONDS = 100
"""What is free for longer goes back. A second, as Arrow has it, costs 5 % less processor time and, with wide rows, 50 MiB."""


def keep_pages() -> None:
    """Let this process's Arrow take its memory from jemalloc, where Arrow was built with it."""
    if "jemalloc" in pa.supported_memory_backends():
        pa.jemalloc_set_decay_ms(_KEPT_MILLISECONDS)
        pa.set_memory_pool(pa.jemalloc_memory_pool())
