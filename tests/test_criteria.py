"""Criteria as users write them: on the command line and in a file."""

import pytest

from evalkit.criteria import Figure, read_bounds, read_criteria
from evalkit.errors import InputError


def test_bounds_of_the_command_line():
    assert read_bounds(["complete@3=0.95", " mrr@10 = 1"], "--min") == {
        "complete@3": 0.95,
        "reciprocal_rank@10": 1.0,
    }
    assert read_bounds([], "--min") == {}


@pytest.mark.parametrize(
    "text",
    [
        "complete=0.9",
        "complete@=0.9",
        "complete@0=0.9",
        "complete@3",
        "complete@3=",
        "f1@3=0.9",
        "complete@3=high",
    ],
)
def test_faulty_bounds_are_named(text):
    with pytest.raises(InputError, match="--min") as caught:
        read_bounds([text], "--min")
    assert repr(text) in str(caught.value)
    assert "complete@3=0.95" in str(caught.value)


def test_all_faulty_bounds_come_at_once():
    with pytest.raises(InputError, match=r"(?s)2 faults.*f1@3.*complete@3 is given twice"):
        read_bounds(["f1@3=1", "complete@3=1", "complete@3=0.5"], "--min")


def test_a_file_and_the_command_line_together(tmp_path):
    path = tmp_path / "gate.yaml"
    path.write_text("min: {complete@3: 0.9, recall@5: 1}\nmax_regressed_cases: 0\nk: 5\n")
    criteria = read_criteria(path, min={"complete@3": 0.95}, max_drop={}, max_false_acceptance=None)
    assert criteria.min == {"complete@3": 0.95, "recall@5": 1.0}
    assert (criteria.max_regressed_cases, criteria.k) == (0, 5)
    assert criteria.needs_baseline
    assert not read_criteria(path=None, max_false_acceptance=0.1).needs_baseline


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("minimum: {complete@3: 0.9}", r"unknown field minimum"),
        ("min: {complete@3: 95}", r"min\.complete@3: .*less than or equal to 1.*95"),
        ("min: {complete@3: nan}", "min.complete@3"),
        ("min: {f1@3: 0.9}", "f1@3.*wanted metric@K"),
        ("min: {mrr@3: 0.9, reciprocal_rank@3: 0.8}", "stands there twice"),
        ("min: {recall@3: 0.9}\nmin: {recall@3: 0.8}", "more than once"),
        ("max_regressed_cases: -1", "max_regressed_cases"),
        ("max_false_acceptance: some", "max_false_acceptance"),
        ("- min", "gate.yaml: wanted fields such as"),
        ("", "gate.yaml: wanted fields such as"),
        ("min: {recall@3: 0.9", r"gate\.yaml:\d+: not usable YAML"),
        ("k: 5", "nothing to check"),
    ],
)
def test_faulty_files_are_refused(tmp_path, text, named):
    path = tmp_path / "gate.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=named):
        read_criteria(path)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_criteria(tmp_path / "absent.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"min: \xe9")
    with pytest.raises(InputError, match="not UTF-8"):
        read_criteria(tmp_path / "latin.yaml")


def test_no_criterion_is_refused():
    with pytest.raises(InputError, match="nothing to check"):
        read_criteria(min={}, max_drop={})


def test_figures_read_back():
    assert str(Figure.read("MRR@5")) == "reciprocal_rank@5"
    assert Figure.read("judged@10") == Figure("judged", 10)
