"""Faults of fields in words of our own."""

from typing import Literal

import pytest
from pydantic import BaseModel, Field

from evalkit.fields import Id, Record, checked


class Inner(Record):
    quote: str


class Outer(Record):
    name: Id = "n"
    number: int = 1
    share: float = 0.5
    flag: bool = True
    rows: tuple[Inner, ...] = Field((), min_length=0)
    some: tuple[int, ...] = Field((1,), min_length=1)
    inner: Inner = Inner(quote="q")
    by_name: dict[str, int] = Field({})


class Chosen(BaseModel):
    kind: Literal["complete", "partial"]
    free: str


def faults_of(model, value):
    faults = []
    assert checked(model, value, "place", faults) is None
    return faults


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"name": []}, "name: should be text, found []"),
        ({"name": ""}, "name: is empty; write text, found ''"),
        ({"number": "x"}, "number: should be a whole number, found 'x'"),
        ({"number": []}, "number: should be a whole number, found []"),
        ({"number": 1.5}, "number: should be a whole number, found 1.5"),
        ({"share": "x"}, "share: should be a number, found 'x'"),
        ({"share": {}}, "share: should be a number, found {}"),
        ({"flag": "x"}, "flag: should be true or false, found 'x'"),
        ({"flag": []}, "flag: should be true or false, found []"),
        ({"rows": 3}, "rows: should be a list, found 3"),
        ({"rows": [3]}, "rows[0]: should be a mapping of fields, found 3"),
        ({"some": []}, "some: is empty; give at least one, found []"),
        ({"inner": 3}, "inner: should be a mapping of fields, found 3"),
        ({"by_name": 3}, "by_name: should be a mapping of fields, found 3"),
        (3, "entry: should be a mapping of fields, found 3"),
    ],
)
def test_a_value_of_another_kind_is_told_without_words_of_python(value, said):
    assert faults_of(Outer, value) == [f"place: {said}"]


def test_a_missing_field_says_what_it_may_hold():
    assert faults_of(Chosen, {}) == [
        "place: kind is missing; add it: 'complete' or 'partial'",
        "place: free is missing; add it",
    ]


def test_an_unknown_field_is_not_proposed_for_itself():
    assert faults_of(Outer, {"quote": 1}) == ["place: unknown field quote; remove it"]
    assert faults_of(Outer, {"numbr": 1}) == ["place: unknown field numbr; did you mean number?"]
