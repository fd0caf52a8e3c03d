"""What a Qdrant server and everything between here and it can answer, as our errors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import httpx
from pydantic import ValidationError
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from evalkit.errors import InfrastructureError, InputError
from evalkit.transport import Transient, retry_after, without_secrets

_LESS = "ask less at a time, or wait"

RETRIED = {408, 500, 502, 503, 504}
_GRPC_RETRIED = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.CANCELLED,
}
_GRPC_KEY = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
_GRPC_INPUT = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,
}


class Conflict(Exception):
    """The server has a collection of this name already."""


def status_errors(
    url: str,
) -> Callable[[httpx.Request, Callable[[httpx.Request], httpx.Response]], httpx.Response]:
    """Make a middleware of the REST client that judges a response before the client parses it.

    Parameters
    ----------
    url
        The server, as errors may show it.
    """

    def judge(request: httpx.Request, send: Callable[[httpx.Request], httpx.Response]) -> httpx.Response:
        response = send(request)
        status = response.status_code
        if status == 429:
            raise Transient(f"{url} answered 429 (too many requests)", _LESS, retry_after(response.headers))
        if status in RETRIED:
            raise Transient(
                f"{url} answered {status}{_message(response)}",
                "look into the server's log",
                retry_after(response.headers),
            )
        kind = response.headers.get("content-type", "")
        if status in (401, 403) and "html" not in kind:
            raise _refused_key(url, str(status))
        if ("json" not in kind and status < 400) or "html" in kind or (status == 404 and "json" not in kind):
            raise InfrastructureError(
                f"{url} answered {status} with content of type {kind!r}, not JSON: something answered that is not "
                "Qdrant, such as a proxy or a sign-in page; check QDRANT_URL and the proxy settings (HTTP_PROXY, "
                "NO_PROXY)"
            )
        if status == 409:
            raise Conflict(f"{url}: {_message(response)}")
        if 400 <= status < 500:
            raise _refused(url, f"{status}{_message(response)}")
        return response

    return judge


@contextmanager
def client_errors(url: str) -> Iterator[None]:
    """Turn what the client raises into `Transient`, InputError or InfrastructureError.

    Nothing of the client's own exceptions is kept: they can hold headers and URLs.
    """
    try:
        yield
    except (Transient, Conflict, InputError, InfrastructureError):
        raise
    except ResponseHandlingException as error:
        raise _from_source(url, error.source) from None
    except ResourceExhaustedResponse as error:
        raise Transient(f"{url} has too many requests", _LESS, float(error.retry_after_s)) from None
    except grpc.RpcError as error:
        raise _from_grpc(url, error) from None
    except UnexpectedResponse as error:
        raise InfrastructureError(
            f"{url} answered {error.status_code} ({error.reason_phrase}); check QDRANT_URL"
        ) from None
    except (QdrantException, ValueError, TypeError, AttributeError, AssertionError, KeyError) as error:
        raise _strange(url, error) from None


def _from_source(url: str, source: Exception) -> Exception:
    if isinstance(source, Transient | InputError | InfrastructureError):
        return source
    if isinstance(source, httpx.TimeoutException):
        return Transient(
            f"{url} did not answer in time",
            "look whether the server is overloaded, or raise QDRANT_TIMEOUT (seconds)",
        )
    if isinstance(source, httpx.UnsupportedProtocol | httpx.InvalidURL):
        return InputError(
            f"QDRANT_URL {url} is no URL that can be asked; give one such as http://localhost:6333"
        )
    if isinstance(source, httpx.TransportError):
        return Transient(
            f"{url} cannot be reached ({type(source).__name__}: {_shown(source) or 'connection lost'})",
            "start Qdrant or check QDRANT_URL; without QDRANT_URL the embedded engine is used",
        )
    return _strange(url, source)


def _from_grpc(url: str, error: Any) -> Exception:  # noqa: ANN401 - grpc's classes are untyped
    code = error.code() if hasattr(error, "code") else grpc.StatusCode.UNKNOWN
    text = _shown(error.details() if hasattr(error, "details") else "")
    if code == grpc.StatusCode.RESOURCE_EXHAUSTED:
        return Transient(f"{url} has too many requests ({text})", _LESS)
    if code in _GRPC_RETRIED:
        return Transient(
            f"{url} cannot be reached over gRPC ({code.name}: {text})",
            "start Qdrant, check QDRANT_URL and QDRANT_GRPC_PORT, or unset QDRANT_PREFER_GRPC to use REST",
        )
    if code in _GRPC_KEY:
        return _refused_key(url, code.name)
    if code == grpc.StatusCode.ALREADY_EXISTS:
        return Conflict(f"{url}: {text}")
    if code in _GRPC_INPUT:
        return _refused(url, f"{code.name}: {text}")
    return InfrastructureError(f"{url} failed over gRPC ({code.name}: {text}); look into the server's log")


def _refused_key(url: str, code: str) -> InputError:
    return InputError(
        f"{url} refuses the key ({code}); set QDRANT_API_KEY to a key of this server that may read, and for "
        "indexing write, and check that QDRANT_URL names the right server"
    )


def _refused(url: str, text: str) -> InputError:
    return InputError(f"{url} refuses the request: {text}; check collection name, vector size and settings")


def _strange(url: str, error: Exception) -> InfrastructureError:
    if isinstance(error, ValidationError):
        places = sorted(
            {".".join(str(part) for part in fault["loc"]) for fault in error.errors(include_input=False)}
        )
        what = f"its answer lacks or garbles {', '.join(places)[:200]}"
    else:
        what = f"its answer cannot be read ({type(error).__name__})"
    return InfrastructureError(
        f"{url} does not answer like Qdrant: {what}; check QDRANT_URL, what stands between here and the server, "
        "and the server's version"
    )


def _message(response: httpx.Response) -> str:
    """Give what Qdrant says about an error, if it is Qdrant that says it."""
    try:
        status = response.json()["status"]
        return f" ({_shown(status['error'])})"
    except (ValueError, KeyError, TypeError):
        return ""


def _shown(said: object) -> str:
    """Give what the other side said as it may stand in an error: it can repeat the key that it was sent."""
    return without_secrets(str(said))[:300]
