"""Kinds of value that the fields of files and settings hold, and the words for a value that is none."""

import difflib
import reprlib
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

Model = TypeVar("Model", bound=BaseModel)


class Record(BaseModel):
    """Base of all models of a data set: unknown fields are refused, numbers where text is wanted become text."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)


def _plain_id(value: str) -> str:
    if not value.isprintable() or value != value.strip():
        raise ValueError("an id has no control or invisible characters and no white space around it")
    return value


def _plain_text(value: str) -> str:
    if "\0" in value:
        raise ValueError("holds a null character; remove it")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("holds half a surrogate pair, which is no character; remove it") from None
    if not value.strip():
        raise ValueError("is empty; write text")
    return value


def _unix_lines(value: str) -> str:
    return value.replace("\r\n", "\n").replace("\r", "\n").strip()


def _one_or_more(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("should be a whole number")
    return value


def _no_entries(value: object) -> object:
    # A heading that is left without entries, such as "supporting:", is an empty list.
    return () if value is None else value


Text = Annotated[str, AfterValidator(_plain_text)]
"""Text with at least one character that shows."""

Lines = Annotated[Text, AfterValidator(_unix_lines)]
"""Text of several lines: line ends become ``\\n``, white space around it is stripped."""

Id = Annotated[str, Field(min_length=1), AfterValidator(_plain_id)]
"""Name of something: printable, not empty, no white space around it."""

Allowed = Annotated[tuple[Id, ...], Field(min_length=1), BeforeValidator(_one_or_more)]
"""One value or a list of values."""

WholeNumber = Annotated[int, BeforeValidator(_no_bool)]
Split = Literal["development", "held-out"]
LISTED = BeforeValidator(_no_entries)


_MESSAGES = {
    "string_type": "should be text",
    "string_too_short": "is empty; write text",
    "bool_type": "should be true or false",
    "bool_parsing": "should be true or false",
    "int_type": "should be a whole number",
    "int_parsing": "should be a whole number",
    "int_from_float": "should be a whole number",
    "float_type": "should be a number",
    "float_parsing": "should be a number",
    "list_type": "should be a list",
    "tuple_type": "should be a list",
    "too_short": "is empty; give at least one",
    "dict_type": "should be a mapping of fields",
    "model_type": "should be a mapping of fields",
}
"""Our words where those of pydantic speak of Python."""


class _Shortener(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 80
        self.maxlevel = 2

    def repr1(self, x: object, level: int) -> str:
        # A subclass of dict, such as a mapping that knows its line, is shown like any other.
        return self.repr_dict(x, level) if isinstance(x, dict) else super().repr1(x, level)


def shown(value: object) -> str:
    """Show a value of any size in a few words."""
    return _Shortener().repr(value)


def checked(
    model: type[Model], value: object, place: str, faults: list[str], *, texts: bool = False
) -> Model | None:
    """Build a record, or list all that is wrong with its fields, each after its place unless that is empty.

    With `texts` every value is a text, read by the type of its field.
    """
    start = f"{place}: " if place else ""
    try:
        return model.model_validate_strings(value, strict=False) if texts else model.model_validate(value)
    except ValidationError as error:
        faults += [f"{start}{_words(fault, model)}" for fault in error.errors(include_url=False)]
    except RecursionError:
        faults.append(f"{start}nested too deeply")
    return None


def _words(fault: Any, model: type[BaseModel]) -> str:  # noqa: ANN401 - pydantic's own typed dict
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"]).lstrip(".")
    name, kind = str(fault["loc"][-1]) if fault["loc"] else "", fault["type"]
    if kind == "missing":
        return f"{path} is missing; add it{_choice(model, fault['loc'])}"
    if kind == "extra_forbidden":
        close = difflib.get_close_matches(name, [one for one in _field_names(model) if one != name], n=1)
        return f"unknown field {path}; {f'did you mean {close[0]}?' if close else 'remove it'}"
    message = _MESSAGES.get(kind) or fault["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{path or 'entry'}: {message}, found {shown(fault['input'])}"


def _choice(model: type[BaseModel], path: tuple[Any, ...]) -> str:
    """Name the values that a field of the model itself allows, where it allows only some."""
    field = model.model_fields.get(path[0]) if len(path) == 1 else None
    values = get_args(field.annotation) if field and get_origin(field.annotation) is Literal else ()
    return f": {' or '.join(map(repr, values))}" if values else ""


def _field_names(model: type[BaseModel]) -> list[str]:
    names: dict[str, None] = {}
    for name, field in model.model_fields.items():
        names[name] = None
        parts = [field.annotation]
        while parts:
            part = parts.pop()
            if isinstance(part, type) and issubclass(part, BaseModel):
                names.update(dict.fromkeys(_field_names(part)))
            parts += getattr(part, "__args__", ())
    return list(names)
