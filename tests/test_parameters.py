"""Parameters of notebooks: what a cell declares, what is refused, and that Papermill hands values over unchanged."""

import ast

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from papermill.translators import PythonTranslator

from evalkit.errors import InputError
from evalkit.parameters import Parameter, check_parameters, declared_parameters, value_from_text

CELL = """\
dataset: str = "worker-runbooks"  # name or path of the data set
ks: list[int] = [1, 3, 5]  # cutoffs
threshold: float = None  # off
flag: bool = False
names: list[str] = [
    "a",  # inner
]  # several lines"""


def notebook_with(source, tags=("parameters",)):
    cell = nbformat.v4.new_code_cell(source, metadata={"tags": list(tags)})
    return nbformat.v4.new_notebook(cells=[cell])


def declared(source=CELL):
    return declared_parameters(notebook_with(source), "probe")


def test_declared_lines_are_read_with_type_default_and_help():
    assert list(declared().values()) == [
        Parameter("dataset", "str", "worker-runbooks", "name or path of the data set"),
        Parameter("ks", "list[int]", [1, 3, 5], "cutoffs"),
        Parameter("threshold", "float", None, "off"),
        Parameter("flag", "bool", False, ""),
        Parameter("names", "list[str]", ["a"], "several lines"),
    ]


def test_a_notebook_without_a_tagged_cell_declares_nothing():
    assert declared_parameters(notebook_with(CELL, tags=()), "probe") == {}


def test_every_line_that_breaks_the_contract_is_named():
    source = "a = 1\nb: int | None = None\nc: int = 1 + x\nimport os\nd: int\ne: int = 'one'\nf: int = 1\nf: int = 2"
    with pytest.raises(InputError) as caught:
        declared(source)
    text = str(caught.value)
    for number in (1, 2, 3, 4, 5, 6, 8):
        assert f"line {number}:" in text
    assert "line 7:" not in text
    assert "notebook probe" in text


def test_a_cell_that_is_not_python_is_named():
    with pytest.raises(InputError, match=r"notebook probe: the parameters cell is not Python \(line 1"):
        declared("a: int = = 1")


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("ks", 3, "found 3 (int), wanted list[int]"),
        ("ks", "three", "found 'three' (str), wanted list[int]"),
        ("ks", [1, "3"], "wanted list[int]"),
        ("ks", [True], "wanted list[int]"),
        ("flag", "true", "found 'true' (str), wanted bool, such as True or False"),
        ("flag", 1, "found 1 (int), wanted bool"),
        ("flag", None, "found None"),
        ("threshold", "0.5", "wanted float, such as 0.5 or None"),
        ("threshold", True, "wanted float"),
        ("dataset", 7, "wanted str"),
    ],
)
def test_a_value_of_another_type_is_refused(name, value, wanted):
    with pytest.raises(InputError) as caught:
        check_parameters("probe", declared(), {name: value})
    assert f"- {name}: " in str(caught.value)
    assert wanted in str(caught.value)
    assert "notebook probe" in str(caught.value)


def test_all_faults_come_at_once_with_what_is_known():
    with pytest.raises(InputError) as caught:
        check_parameters("probe", declared(), {"treshold": 0.5, "ks": 3, "zzz": 1})
    text = str(caught.value)
    assert "treshold: unknown; did you mean threshold?" in text
    assert "- ks: found 3" in text
    assert "- zzz: unknown\n" in text
    assert "known parameters: dataset: str = 'worker-runbooks'; ks: list[int] = [1, 3, 5]" in text


def test_whole_numbers_are_floats_tuples_are_lists_and_none_is_off():
    values = check_parameters("probe", declared(), {"threshold": 1, "ks": (1, 2), "dataset": "x"})
    assert values == {"threshold": 1.0, "ks": [1, 2], "dataset": "x"}
    assert isinstance(values["threshold"], float)
    assert check_parameters("probe", declared(), {"threshold": None}) == {"threshold": None}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("dataset", "20240101", "20240101"),
        ("dataset", "None", "None"),
        ("ks", "[1, 3]", [1, 3]),
        ("ks", "3", 3),
        ("flag", "True", True),
        ("flag", "true", "true"),
        ("threshold", "0.5", 0.5),
        ("threshold", "None", None),
        ("threshold", "__import__('os')", "__import__('os')"),
    ],
)
def test_text_is_read_by_the_declared_type(name, text, value):
    assert value_from_text(declared()[name], text) == value


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_reaches_the_notebook_unchanged(text):
    code = PythonTranslator.codify({"dataset": text}).partition("dataset = ")[2]
    assert ast.literal_eval(code) == text
