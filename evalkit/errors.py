"""The three ways in which work ends early; the command line maps each to an exit code."""


class InputError(Exception):
    """Invalid input: labels, settings, parameters or data (exit code 2)."""


class InfrastructureError(Exception):
    """Something outside the input failed: Qdrant, Ollama, a time-out, a deadline, the disk (exit code 3)."""


class CriteriaNotMet(Exception):  # noqa: N818 - the name is part of the exit-code contract
    """The run is valid and misses a required figure (exit code 1)."""
