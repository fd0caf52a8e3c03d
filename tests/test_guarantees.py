"""Every test that docs/guarantees.md names is there, and every promise names one."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
TEXT = (TESTS.parent / "docs" / "guarantees.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", TEXT)


def promises() -> list[str]:
    promised = TEXT.split("## What is not promised")[0]
    return [" ".join(part.split()) for part in re.findall(r"^- (.+?)(?=\n- |\n\n|\Z)", promised, re.S | re.M)]


@pytest.mark.parametrize("promise", promises(), ids=lambda text: text[:50])
def test_a_promise_is_one_sentence_with_the_tests_that_show_it(promise):
    sentence, colon, tests = promise.partition(": `")
    assert colon, "no test is named"
    assert not re.search(r"[.!?] [A-Z]", sentence)
    assert re.fullmatch(r"`[\w/]+\.py::test_\w+`(, `[\w/]+\.py::test_\w+`)*\.", f"`{tests}")


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED}))
def test_every_test_that_is_named_is_there(file):
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {name for where, name in NAMED if where == file} <= there


def test_no_name_is_given_in_another_form():
    assert len(NAMED) == TEXT.count("::") > 100
