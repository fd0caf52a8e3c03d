"""Which engine answers, from the environment."""

import os

from evalkit.embedded_store import EmbeddedStore
from evalkit.points import Store
from evalkit.transport import Deadline


def open_store(deadline: Deadline | None = None) -> Store:
    """Open the engine that the environment names; use it as a context manager.

    Parameters
    ----------
    deadline
        No request starts after it; None for no limit.

    Returns
    -------
    Store
        With ``QDRANT_URL`` set that server, else the embedded engine under ``outputs/collections/``.

    Raises
    ------
    InputError
        Settings in the environment that cannot be used.
    InfrastructureError
        The server cannot be reached.
    """
    if os.environ.get("QDRANT_URL", "").strip():
        # The client costs a second to import, and the embedded engine does without.
        from evalkit.qdrant_connection import connect
        from evalkit.server_store import ServerStore

        return ServerStore(connect(deadline))
    return EmbeddedStore(deadline=deadline)
