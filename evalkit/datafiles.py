"""Text, YAML and JSON Lines, read so that every fault is listed with its place.

Functions that take ``faults`` add to it and give None, or leave the faulty line out: a reader goes on to the
next file, and the caller refuses everything at once.
"""

import json
import re
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import yaml
from yaml.constructor import ConstructorError

from evalkit.fields import shown

MAX_YAML_VALUES = 10_000_000


class Mapping(dict[str, Any]):
    """A mapping of a YAML file that knows its line."""

    line = 0


def inside(folder: Path, name: str, place: str, faults: list[str]) -> Path | None:
    """Find a file, and refuse one that lies outside the folder or is none.

    Parameters
    ----------
    folder
        A resolved folder.
    name
        Path within the folder.
    place
        Where the name stands, for the fault.
    faults
        Gets a fault for a path that leaves the folder (by ``..``, by a symbolic link, by being absolute), for one
        that does not exist, and for anything but a regular file.
    """
    try:
        path = (folder / name).resolve(strict=True)
        regular = stat.S_ISREG(path.stat().st_mode)
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        faults.append(
            f"{place}: {name!r} cannot be opened in {folder}: {reason}; name a file of the data set"
        )
        return None
    if not path.is_relative_to(folder):
        faults.append(f"{place}: {name!r} leads out of {folder}; put the file into the data set's folder")
    elif not regular:
        faults.append(f"{place}: {name!r} is not a regular file")
    else:
        return path
    return None


def matching(folder: Path, pattern: str, place: str, faults: list[str]) -> list[str]:
    """List the paths within a folder that match a glob, in order of their names."""
    wish = f"{place}: {pattern!r}: give a pattern within the data set's folder, such as documents/*.md"
    if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
        faults.append(wish)
        return []
    try:
        names = sorted(path.relative_to(folder).as_posix() for path in folder.glob(pattern))
    except (OSError, RuntimeError, ValueError, IndexError) as error:
        faults.append(f"{wish} ({error})")
        return []
    if not names:
        faults.append(f"{place}: {pattern!r} matches no file in {folder}")
    faults += [f"{place}: rename the file {name!a}" for name in names if not name.isprintable()]
    return [name for name in names if name.isprintable()]


def read_text(folder: Path, name: str, place: str, faults: list[str]) -> str | None:
    """Read a UTF-8 file of the folder, without byte order mark and with Unix line ends."""
    path = inside(folder, name, place, faults)
    if path is None:
        return None
    try:
        text = _decoded(path.read_bytes())
    except OSError as error:
        faults.append(f"{place}: {name!r} cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        faults.append(f"{name}:{line}: {_not_utf8(error)}")
    else:
        return text
    return None


def read_yaml(path: Path, faults: list[str]) -> Any:  # noqa: ANN401 - see parse_yaml
    """Read a YAML file that belongs to no data set, see `parse_yaml`; None with a fault when it cannot be read."""
    try:
        text = _decoded(path.read_bytes())
    except OSError as error:
        faults.append(f"{path}: cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        faults.append(f"{path}: {_not_utf8(error)}")
    else:
        return parse_yaml(text, str(path), faults)
    return None


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def read_json_lines(
    folder: Path, name: str, place: str, faults: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read a file of one JSON object a line, a line at a time; blank lines are skipped.

    Yields
    ------
    tuple of (str, dict)
        Place (``name:line``) and object.
    """
    path = inside(folder, name, place, faults)
    if path is None:
        return
    try:
        stream = path.open("rb")
    except OSError as error:
        faults.append(f"{place}: {name!r} cannot be read: {error.strerror}")
        return
    with stream:
        for number, raw in enumerate(stream, start=1):
            if not raw.strip():
                continue
            line = f"{name}:{number}"
            value = _json(raw, line, faults)
            if isinstance(value, dict):
                yield line, value


def _json(raw: bytes, line: str, faults: list[str]) -> object:
    try:
        value = _JSON.decode(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        faults.append(f"{line}: {_not_utf8(error)}")
    except json.JSONDecodeError as error:
        faults.append(f"{line}: not JSON: {error.msg} at column {error.colno}")
    except (ValueError, RecursionError) as error:
        faults.append(f"{line}: {error}")
    else:
        if isinstance(value, dict):
            return value
        faults.append(f"{line}: wanted one JSON object, found {shown(value)}")
    return None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        times = Counter(name for name, _ in pairs)
        twice = ", ".join(repr(name) for name in times if times[name] > 1)
        raise ValueError(f"field {twice} stands more than once; keep one")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


_JSON = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def _not_utf8(error: UnicodeDecodeError) -> str:
    return f"not UTF-8 (byte 0x{error.object[error.start]:02x}); save the file as UTF-8"


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML of mappings, lists, text and null only: ``no``, ``1.10`` and ``2024-01-01`` stay as they are written."""

    yaml_constructors: ClassVar[dict[str | None, Any]] = {}
    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag == "tag:yaml.org,2002:null"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _construct_mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> Iterator[Mapping]:
    mapping = Mapping()
    mapping.line = node.start_mark.line + 1
    yield mapping
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise ConstructorError(None, None, "a field name must be text", key_node.start_mark)
        if key in mapping:
            raise ConstructorError(
                None, None, f"field {key!r} stands more than once; keep one", key_node.start_mark
            )
        mapping[key] = loader.construct_object(value_node)


_Loader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)
_Loader.add_constructor("tag:yaml.org,2002:seq", yaml.SafeLoader.construct_yaml_seq)
_Loader.add_constructor("tag:yaml.org,2002:str", yaml.SafeLoader.construct_yaml_str)
_Loader.add_constructor("tag:yaml.org,2002:null", yaml.SafeLoader.construct_yaml_null)
_Loader.add_constructor(None, yaml.SafeLoader.construct_undefined)


def parse_yaml(text: str, name: str, faults: list[str], first_line: int = 1) -> Any:  # noqa: ANN401
    """Parse one YAML document into `Mapping`, list, str and None; numbers and dates stay text.

    Parameters
    ----------
    text
        YAML text.
    name
        File, for faults.
    faults
        Gets syntax faults, fields that stand twice, tags other than plain ones, and aliases that refer to
        themselves or multiply beyond ten million values.
    first_line
        Line of the file on which the text begins.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _expanded_size(node, {})
        value = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        row = mark.line if mark else 0
        problem = _yaml_problem(error.problem or error.context or "", text.split("\n")[row : row + 1])
        faults.append(f"{name}:{first_line + row}: not usable YAML: {problem}")
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        faults.append(f"{name}:{first_line}: not usable YAML: {' '.join(str(error).split())}")
    else:
        return value
    return None


def _yaml_problem(problem: str, line: list[str]) -> str:
    """Say what the parser cannot read, and the mend where its words do not tell."""
    indentation = re.match(r"\s*", line[0] if line else "")
    if indentation and "\t" in indentation[0]:
        return "a tab in the indentation; write spaces"
    if "cannot start any token" in problem or "mapping values are not allowed" in problem:
        return f"{problem}; put text that holds `: ` or begins with a special character into quotes"
    return problem


def _expanded_size(node: yaml.Node, known: dict[yaml.Node, int | None]) -> int:
    """Count values with every alias written out, so that a few lines cannot become billions of values."""
    if node in known:
        size = known[node]
        if size is None:
            raise ConstructorError(None, None, "an alias refers to itself", node.start_mark)
        return size
    known[node] = None
    children = node.value if isinstance(node, yaml.SequenceNode) else []
    if isinstance(node, yaml.MappingNode):
        children = [child for pair in node.value for child in pair]
    size = 1 + sum(_expanded_size(child, known) for child in children)
    if size > MAX_YAML_VALUES:
        raise ConstructorError(None, None, "too many values, aliases written out", node.start_mark)
    known[node] = size
    return size
