"""Kinds of value that the fields of a data set hold, with the words for a value that is none."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field


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
