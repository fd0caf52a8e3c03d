"""Memory of a large corpus: the cyclic garbage collector kept from its very many objects, and what is freed.

Whenever enough objects are new, the collector goes through all there are: a third of the time of reading and cutting
100,000 passages. None of these is part of a cycle; what nobody holds is freed at once, as ever.
"""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Look for no cycles meanwhile; also a decorator.

    For stretches that make many objects, end soon and talk to no server, since clients do leave cycles behind.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # What was made meanwhile joins the old objects at once: as new ones they would be gone through now.
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        if enabled:
            gc.enable()


@contextmanager
def collector_spared() -> Iterator[None]:
    """Look for cycles among objects that are made meanwhile only, not among those that exist already."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def give_back_memory() -> None:
    """Give freed memory back to the system, which glibc keeps where it lies between blocks in use; else do nothing.

    For when many texts went: the bodies of 10,000 documents are 45 MB that the process would hold to its end.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
