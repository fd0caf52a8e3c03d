"""Positional labels written into a cases file, every other line of it left as it is."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from evalkit.dataset import PositionalLabel
from evalkit.errors import InputError

Additions = Mapping[str, Sequence[PositionalLabel]]


def add_labels(text: str, additions: Additions, name: str) -> str:
    """Add labels to the ``relevant`` lists of cases.

    Parameters
    ----------
    text
        Content of the cases file.
    additions
        Case id -> labels to add at the end of its list.
    name
        Name of the file; ``.jsonl`` holds a case a line, anything else is YAML.

    Returns
    -------
    str
        The text with the labels in it. Comments and layout stay; in JSONL the lines of these cases are written anew.

    Raises
    ------
    InputError
        The file is laid out in a way that cannot be extended safely; nothing is guessed.
    """
    return _add_to_lines(text, additions) if name.endswith(".jsonl") else _add_to_yaml(text, additions, name)


def _add_to_lines(text: str, additions: Additions) -> str:
    lines = text.split("\n")
    for number, line in enumerate(lines):
        row = json.loads(line.removeprefix("\ufeff")) if line.strip() else {}
        if labels := additions.get(str(row.get("id"))):
            row["relevant"] = [*row.get("relevant", []), *(_plain(label) for label in labels)]
            lines[number] = json.dumps(row, ensure_ascii=False)
    return "\n".join(lines)


def _add_to_yaml(text: str, additions: Additions, name: str) -> str:
    edits = []
    for case in _entry(yaml.compose(text, yaml.CSafeLoader), "answerable").value:
        if labels := additions.get(_entry(case, "id").value):
            edits.append(_edit(text, case, labels))
    extended = text
    for place, inserted in sorted(edits, reverse=True):
        extended = extended[:place] + inserted + extended[place:]
    if _loaded(extended) != _expected(text, additions):
        raise InputError(
            f"{name}: its layout (such as anchors, aliases or multi-line strings) does not allow labels to be added "
            f"for {', '.join(sorted(additions))}; write them by hand"
        )
    return extended


def _edit(text: str, case: yaml.CollectionNode, labels: Sequence[PositionalLabel]) -> tuple[int, str]:
    """Give the place in the text, and what to insert there."""
    relevant = _entry(case, "relevant")
    flow = ", ".join(_flow(label) for label in labels)
    if relevant is not None and relevant.flow_style:
        return relevant.end_mark.index - 1, f", {flow}" if relevant.value else flow
    if relevant is None and case.flow_style:
        return case.end_mark.index - 1, f", relevant: [{flow}]"
    holder = case if relevant is None else relevant
    indent = " " * holder.start_mark.column
    lines = [f"{indent}- {_flow(label)}" for label in labels]
    if relevant is None:
        lines = [f"{indent}relevant:", *(f"  {line}" for line in lines)]
    newline = "\r\n" if "\r\n" in text else "\n"
    block = newline.join(lines)
    end = _last_leaf(holder).end_mark
    if end.column == 0:  # a block string ends where the next line begins
        return end.index, block + newline
    line_end = text.find("\n", end.index)
    if line_end < 0:
        return len(text), newline + block
    return line_end + 1, block + newline


def _last_leaf(node: yaml.Node) -> yaml.Node:
    while isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return node


def _entry(node: yaml.Node | None, key: str) -> Any:  # noqa: ANN401 - a node of any kind, or None
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for name, value in pairs if name.value == key), None)


def _plain(label: PositionalLabel) -> dict[str, Any]:
    return {"document": label.document, "chunk": label.chunk, "grade": label.grade}


def _flow(label: PositionalLabel) -> str:
    return yaml.safe_dump(
        _plain(label), default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6
    ).strip()


def _loaded(text: str) -> Any:  # noqa: ANN401 - whatever the file holds
    try:
        return yaml.load(text, Loader=yaml.CBaseLoader)
    except yaml.YAMLError:
        return None


def _expected(text: str, additions: Additions) -> Any:  # noqa: ANN401 - whatever the file holds
    content = _loaded(text)
    for case in content["answerable"]:
        if labels := additions.get(case["id"]):
            plain = [{key: str(value) for key, value in _plain(label).items()} for label in labels]
            case["relevant"] = [*case.get("relevant", []), *plain]
    return content
