"""YAML that cannot be read, with its line and its mend."""

import pytest

from evalkit.datafiles import parse_yaml

TAB = "a tab in the indentation; write spaces"
QUOTES = "put text that holds `: ` or begins with a special character into quotes"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("\ta: 1", 5, TAB),
        ("a: 1\n\tb: 2", 6, TAB),
        ("a:\n\tb: 2", 6, TAB),
        ("a:\n  b: 1\n\tc: 2", 7, TAB),
        ("- a\n\t- b", 6, TAB),
        ("a:\n - b: 1\n \tc: 2", 7, TAB),
        ("a: x\n  \tb: y", 6, TAB),
        ("a: |\n\tx", 6, TAB),
        ("a: 1\nb: Retry: how?", 6, f"mapping values are not allowed in this context; {QUOTES}"),
        ("a: @x", 5, f"found character that cannot start any token; {QUOTES}"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line_and_its_mend(text, line, said):
    faults = []
    assert parse_yaml(text, "cases.yaml", faults, first_line=5) is None
    assert faults == [f"cases.yaml:{line}: not usable YAML: {said}"]


def test_tabs_within_lines_and_brackets_are_fine():
    faults = []
    assert parse_yaml("a:\tb\nc: [1,\n\t2]", "cases.yaml", faults) == {"a": "b", "c": ["1", "2"]}
    assert faults == []
