"""What a run must reach: figures with their bounds, from the command line and from a YAML file."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from evalkit.datafiles import read_yaml
from evalkit.errors import InputError, refuse
from evalkit.fields import checked, shown
from evalkit.measures import JUDGED, MEASURES

FIGURES = (*MEASURES, JUDGED)
_ALIASES = {"mrr": "reciprocal_rank"}
Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class Figure:
    """A mean at a cutoff, written ``metric@K``."""

    metric: str
    k: int

    @classmethod
    def read(cls, text: str) -> "Figure":
        """Read ``complete@3``; ``mrr`` stands for ``reciprocal_rank``.

        Raises
        ------
        ValueError
            No such metric, or no K of at least 1.
        """
        name, _, cutoff = text.partition("@")
        metric = _ALIASES.get(name.lower(), name)
        if metric not in FIGURES or not cutoff.isascii() or not cutoff.isdigit() or int(cutoff) < 1:
            raise ValueError(
                f"found {text!r}, wanted metric@K such as complete@3, with one of {', '.join(FIGURES)}"
            )
        return cls(metric, int(cutoff))

    def __str__(self) -> str:
        return f"{self.metric}@{self.k}"


class Criteria(BaseModel):
    """What a run must reach; also the model of a criteria file (YAML).

    Attributes
    ----------
    min
        Figure (``complete@3``) -> lowest mean allowed.
    min_cases
        Cases that have to count, at least, in every mean that is looked at; without means, those scored at `k`.
        Unsupported questions are counted apart.
    max_false_acceptance
        Highest share of unsupported questions that the run accepts by its own threshold (without a threshold:
        whatever returns a passage), at `k`.
    max_drop
        Figure -> how far its mean may lie below that of the baseline.
    max_regressed_cases
        Cases that may be worse than in the baseline at `k`: a required fact lost, or for a case without facts a lower
        recall (`comparison.case_changes`).
    k
        Cutoff for false acceptance and regressed cases; the largest of the run by default.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    min: dict[str, Share] = {}
    min_cases: Annotated[int, Field(ge=1)] | None = None
    max_false_acceptance: Share | None = None
    max_drop: dict[str, Share] = {}
    max_regressed_cases: Annotated[int, Field(ge=0)] | None = None
    k: Annotated[int, Field(ge=1)] | None = None

    @field_validator("min", "max_drop", mode="after")
    @classmethod
    def _figures(cls, bounds: dict[str, float]) -> dict[str, float]:
        named = {str(Figure.read(text)): bound for text, bound in bounds.items()}
        if len(named) < len(bounds):
            raise ValueError(f"a figure stands there twice: {', '.join(bounds)}")
        return named

    @property
    def needs_baseline(self) -> bool:
        """A criterion compares with another run."""
        return bool(self.max_drop) or self.max_regressed_cases is not None

    @property
    def empty(self) -> bool:
        """No criterion at all."""
        alone = (self.min_cases, self.max_false_acceptance)
        return not (self.min or self.needs_baseline or any(bound is not None for bound in alone))


def read_criteria(path: Path | None = None, **given: Any) -> Criteria:  # noqa: ANN401 - from the command line
    """Read criteria from a file and the command line.

    Parameters
    ----------
    path
        YAML file with the fields of `Criteria`; None is no file.
    **given
        Fields given beside it; None and empty ones are not given. A bound given here replaces the one of the file.

    Returns
    -------
    Criteria
        Both together.

    Raises
    ------
    InputError
        No such file, no YAML mapping, unknown fields or figures, bounds out of range, or no criterion at all.
    """
    faults: list[str] = []
    values = _from_file(path, faults) if path else {}
    for name, value in given.items():
        if value is None or value in ({}, []):
            continue
        held = values.get(name)
        values[name] = {**held, **value} if isinstance(held, dict) and isinstance(value, dict) else value
    origin = f"criteria of {path} and the command line" if path else "criteria"
    criteria = None if faults else checked(Criteria, values, "criteria", faults)
    if criteria is None:
        refuse(origin, faults)
    if criteria.empty:
        raise InputError(f"{origin}: nothing to check; give at least one, such as --min complete@3=0.95")
    return criteria


def read_bounds(texts: Iterable[str], option: str) -> dict[str, float]:
    """Read ``complete@3=0.95`` from the command line.

    Parameters
    ----------
    texts
        One bound each.
    option
        Name of the option, for error texts.

    Returns
    -------
    dict of str to float
        Figure -> bound.

    Raises
    ------
    InputError
        All texts that are not ``metric@K=number``, or name a figure twice.
    """
    bounds: dict[str, float] = {}
    faults = []
    for text in texts:
        figure, _, number = text.partition("=")
        try:
            name, bound = str(Figure.read(figure.strip())), float(number)
        except ValueError as error:
            faults.append(f"{option} {text!r}: {error}")
            continue
        if name in bounds:
            faults.append(f"{option} {text!r}: {name} is given twice")
        bounds[name] = bound
    if faults:
        refuse("criteria (metric@K=number, such as complete@3=0.95)", faults)
    return bounds


def _from_file(path: Path, faults: list[str]) -> dict[str, Any]:
    values = read_yaml(path, faults)
    if not faults and not isinstance(values, dict):
        faults.append(f"{path}: wanted fields such as `min: {{complete@3: 0.95}}`, found {shown(values)}")
    return dict(values) if isinstance(values, dict) else {}
