"""Parameters of a notebook: read from its cell tagged ``parameters`` and checked before a kernel starts."""

import ast
import difflib
import io
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nbformat import NotebookNode
from pydantic import TypeAdapter, ValidationError

from evalkit.errors import InputError, refuse

TYPES: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "list[str]": list[str],
    "list[int]": list[int],
    "list[float]": list[float],
}
_EXAMPLES = {
    "str": "'text'",
    "int": "3",
    "float": "0.5",
    "bool": "True or False",
    "list[str]": "['a', 'b']",
    "list[int]": "[1, 3, 5]",
    "list[float]": "[0.5, 0.7]",
}


@dataclass(frozen=True)
class Parameter:
    """One line of the parameters cell, ``name: type = default  # help``.

    Attributes
    ----------
    type
        One of `TYPES`, as written. A default of None makes None a valid value too.
    help
        Text of the comment, empty when there is none.
    """

    name: str
    type: str
    default: Any
    help: str

    def __str__(self) -> str:
        return f"{self.name}: {self.type} = {self.default!r}"


def declared_parameters(notebook: NotebookNode, name: str) -> dict[str, Parameter]:
    """Read the parameters cell of a notebook.

    Parameters
    ----------
    notebook
        Format 4; its parameters stand in the first cell tagged ``parameters``.
    name
        Name of the notebook, for error texts.

    Returns
    -------
    dict of str to Parameter
        In the order of the cell. Empty when no cell has the tag.

    Raises
    ------
    InputError
        A line of the cell that is not ``name: type = literal  # help`` with a known type, a name given twice, or
        a default that is not of its type; all of them in one text.
    """
    cells = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    if not cells:
        return {}
    source = cells[0].source
    try:
        body = ast.parse(source).body
    except SyntaxError as error:
        raise InputError(
            f"notebook {name}: the parameters cell is not Python (line {error.lineno}: {error.msg})"
        ) from None
    helps = _comments(source)
    parameters: dict[str, Parameter] = {}
    faults = []
    for statement in body:
        written = ast.unparse(statement)
        parameter = _parameter_of(statement, helps.get(statement.end_lineno or statement.lineno, ""))
        if parameter is None:
            faults.append(
                f"line {statement.lineno}: found `{written}`, wanted `name: type = literal  # help` "
                f"with a type of {', '.join(TYPES)}"
            )
        elif parameter.name in parameters:
            faults.append(f"line {statement.lineno}: {parameter.name} stands there twice")
        elif parameter.default is not None and not _matches(parameter, parameter.default):
            faults.append(f"line {statement.lineno}: the default of `{written}` is not a {parameter.type}")
        else:
            parameters[parameter.name] = parameter
    if faults:
        refuse(f"notebook {name}: its parameters cell", faults)
    return parameters


def check_parameters(
    name: str, declared: Mapping[str, Parameter], values: Mapping[str, object]
) -> dict[str, Any]:
    """Check values against what a notebook declares.

    Parameters
    ----------
    name
        Name of the notebook, for error texts.
    declared
        What `declared_parameters` gave.
    values
        Values by name. An integer is a valid float and a tuple a valid list; nothing else is converted.

    Returns
    -------
    dict of str to value
        The same values, floats and lists in their declared type.

    Raises
    ------
    InputError
        Unknown names and values of another type, all in one text with what is known.
    """
    checked: dict[str, Any] = {}
    faults = []
    for key, value in values.items():
        if key not in declared:
            close = difflib.get_close_matches(key, declared, n=1)
            faults.append(f"{key}: unknown" + (f"; did you mean {close[0]}?" if close else ""))
            continue
        parameter = declared[key]
        given = list(value) if isinstance(value, tuple) else value
        if given is None and parameter.default is None:
            checked[key] = None
        elif _matches(parameter, given):
            checked[key] = TypeAdapter(TYPES[parameter.type]).validate_python(given, strict=True)
        else:
            faults.append(
                f"{key}: found {value!r} ({type(value).__name__}), wanted {parameter.type}, "
                f"such as {_EXAMPLES[parameter.type]}" + (" or None" if parameter.default is None else "")
            )
    if faults:
        known = "; ".join(str(parameter) for parameter in declared.values()) or "none"
        refuse(f"notebook {name}: parameters", faults, f"known parameters: {known}")
    return checked


def value_from_text(parameter: Parameter, text: str) -> object:
    """Read a value that was given as text, such as on the command line.

    Parameters
    ----------
    parameter
        What the notebook declares under this name.
    text
        Taken as it is for a ``str``; for other types a Python literal (``3``, ``True``, ``[1, 3]``).

    Returns
    -------
    object
        The value; the text itself where it is no literal, which `check_parameters` then refuses.
    """
    if text == "None" and parameter.default is None:
        return None
    if parameter.type == "str":
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _parameter_of(statement: ast.stmt, help_text: str) -> Parameter | None:
    if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
        return None
    kind = ast.unparse(statement.annotation)
    if kind not in TYPES or statement.value is None:
        return None
    try:
        default = ast.literal_eval(statement.value)
    except ValueError:
        return None
    return Parameter(statement.target.id, kind, default, help_text)


def _matches(parameter: Parameter, value: object) -> bool:
    try:
        TypeAdapter(TYPES[parameter.type]).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


def _comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {
        token.start[0]: token.string.lstrip("# ").rstrip()
        for token in tokens
        if token.type == tokenize.COMMENT
    }
