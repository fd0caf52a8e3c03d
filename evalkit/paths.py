"""Where the project's data, notebooks and outputs lie, whatever the working directory."""

import errno
import os
from pathlib import Path

from evalkit.errors import InputError


def root() -> Path:
    """Give the project root.

    Returns
    -------
    Path
        The nearest folder at or above the working directory that holds ``evalkit/`` and ``data/``, else the
        folder that the package was installed from.
    """
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "evalkit").is_dir() and (folder / "data").is_dir():
            return folder
    return Path(__file__).resolve().parent.parent


def outputs() -> Path:
    """Give the folder for everything generated: ``$EVALKIT_OUTPUTS``, else ``outputs/`` in the project root.

    Raises
    ------
    InputError
        ``EVALKIT_OUTPUTS`` is longer than any name of a folder may be.
    """
    chosen = os.environ.get("EVALKIT_OUTPUTS")
    if not chosen:
        return root() / "outputs"
    folder = Path(chosen).absolute()
    try:
        (folder / ("x" * 250)).stat()  # with room for what will stand in it
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(
                f"EVALKIT_OUTPUTS: no name of a folder ({error.strerror}), found {chosen[:60]!r} and "
                f"{len(chosen) - 60} more characters; set it to a shorter one"
            ) from None
    return folder


def embeddings_folder(folder: str | Path | None = None) -> Path:
    """Give the folder of the recorded vectors: ``data/embeddings``, or a name under ``data/``, or a path."""
    if folder is None:
        return root() / "data" / "embeddings"
    named = root() / "data" / folder
    return named if named.is_dir() else Path(folder).expanduser().absolute()


def dataset_folder(dataset: str | Path) -> Path:
    """Find the folder of a data set.

    Parameters
    ----------
    dataset
        A name under ``data/`` in the project root, or the path of a folder.

    Returns
    -------
    Path
        A folder that holds a ``dataset.yaml``.

    Raises
    ------
    InputError
        No such folder, or no ``dataset.yaml`` in it; the text lists the data sets there are.
    """
    named = root() / "data" / dataset
    for folder in (named, Path(dataset).expanduser().absolute()):
        try:
            if (folder / "dataset.yaml").is_file():
                return folder
        except OSError as error:
            raise InputError(
                f"data set {str(dataset)[:60]!r}: no name of a folder ({error.strerror})"
            ) from None
    known = sorted(path.parent.name for path in (root() / "data").glob("*/dataset.yaml"))
    raise InputError(
        f"data set {str(dataset)!r}: no dataset.yaml in {named} and no such folder; "
        f"give the path of a folder with a dataset.yaml, or one of: {', '.join(known) or 'none under data/'}"
    )
