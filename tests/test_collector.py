"""The garbage collector is as it was afterwards, whatever happened meanwhile; freed memory goes back."""

import ctypes
import gc
import weakref
from pathlib import Path

import pytest

from evalkit.collector import collector_paused, collector_spared, give_back_memory


class Node:
    def __init__(self) -> None:
        self.itself = self


def lost_cycle() -> weakref.ref:
    return weakref.ref(Node())


@pytest.mark.parametrize("enabled", [True, False])
def test_paused_it_is_switched_back_even_after_an_error(enabled):
    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(KeyError), collector_paused():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() is enabled
    finally:
        gc.enable()


def test_what_was_made_in_a_pause_is_old_at_once():
    """As new it would be gone through right away."""
    with collector_spared():
        pass  # whatever the tests froze is thawed
    with collector_paused():
        made = Node()
    assert gc.get_freeze_count() == 0
    assert any(one is made for one in gc.get_objects(generation=2))


def test_a_pause_leaves_spared_objects_spared():
    with collector_spared():
        with collector_paused():
            pass
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


def test_spared_objects_are_looked_at_again_afterwards():
    gc.disable()
    try:
        before = lost_cycle()
        with pytest.raises(KeyError), collector_spared():
            meanwhile = lost_cycle()
            gc.collect()
            assert (before() is None, meanwhile() is None) == (False, True)
            raise KeyError
        gc.collect()
        assert before() is None
    finally:
        gc.enable()


def resident() -> int:
    """Kilobytes of memory that this process has and no file backs."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="another C library than glibc")
def test_freed_texts_between_others_are_given_back():
    texts = [str(number) * 800 for number in range(10_000, 30_000)]  # 4,000 characters each
    kept = texts[::100]
    del texts
    before = resident()
    give_back_memory()
    assert before - resident() > 40_000
    assert all(kept)


def test_another_c_library_has_nothing_to_give_back(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    give_back_memory()
