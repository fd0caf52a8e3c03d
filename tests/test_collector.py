"""The garbage collector is as it was afterwards, whatever happened meanwhile."""

import gc
import weakref

import pytest

from evalkit.collector import collector_paused, collector_spared


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
