"""The three ways in which work ends early, each with its exit code, and the lists in their texts."""

from collections.abc import Iterable, Sequence
from typing import NoReturn

MAX_FAULTS = 1000
SHOWN = 10
"""Lines that a list of prompts, vectors or passages shows."""


class InputError(Exception):
    """Invalid input: labels, settings, parameters or data (exit code 2)."""


class InfrastructureError(Exception):
    """Something outside the input failed: Qdrant, Ollama, a time-out, a deadline, the disk (exit code 3)."""


class CriteriaNotMet(Exception):
    """The run is valid and misses a required figure (exit code 1)."""


def refuse(what: str, faults: Sequence[str], then: str = "") -> NoReturn:
    """Raise all faults as one InputError.

    Parameters
    ----------
    what
        What was being read or checked.
    faults
        One text a fault, at least one, each with its place and its mend.
    then
        A last line, such as what is allowed.

    Raises
    ------
    InputError
        Always. Over 1000 faults the rest is counted, not shown.
    """
    text = f"{what}: {counted(len(faults), 'fault')}{bullets(faults, MAX_FAULTS)}" + (
        f"\n{then}" if then else ""
    )
    # Half a surrogate pair in a name of the input could not be printed.
    raise InputError(text.encode(errors="backslashreplace").decode())


def counted(number: int, noun: str, plural: str = "") -> str:
    """Write a number with its noun, which takes an s unless the plural is another or the number is 1."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def bullets(lines: Sequence[str], most: int | None = None) -> str:
    """Write lines as a list, each after a line end and a dash; beyond `most` they are counted."""
    listed = "".join(f"\n- {line}" for line in lines[:most])
    rest = 0 if most is None else len(lines) - most
    return f"{listed}\n- and {rest} more" if rest > 0 else listed


def some(names: Iterable[object], most: int = 5) -> str:
    """Write names with commas; beyond `most` they are counted, and there being none is said."""
    known = [str(name) for name in names]
    rest = f" and {len(known) - most} more" if len(known) > most else ""
    return (", ".join(known[:most]) or "none") + rest
