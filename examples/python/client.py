"""A client of Fireonce, to copy: API key, repeats, typed errors, streams.

Generated code comes from the contract, see README.md. What a generated client
does not bring along is in this file:

* A call is repeated unchanged, under the same idempotency key, when nobody knows
  whether it arrived. Fireonce answers a repeat with the job of the first call.
* An error carries an ErrorDetail: a reason to switch on, never a text to parse.
* A stream of events goes on behind the last event that was processed, after
  whatever ended it.
"""

import random
import time
from typing import Iterator, Optional
from urllib.parse import urlsplit

import grpc
from google.rpc import status_pb2

from fireonce.connections.v1 import connection_service_pb2_grpc
from fireonce.v1 import error_pb2, event_pb2, job_service_pb2, job_service_pb2_grpc

# Whether the call arrived is unknown. Every call that changes something may be
# repeated after these: all of them are idempotent.
UNCERTAIN = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNKNOWN,
}

# A stream changes nothing, so it is opened again after any error but these.
FINAL = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,  # CURSOR_EXPIRED: list the jobs, then stream from there
    grpc.StatusCode.UNIMPLEMENTED,
}

# The server ends a stream after this; a new one goes on.
STREAM_SECONDS = 60
# How much later the client gives up on a stream that does not end: its
# connection is dead.
STREAM_MARGIN_SECONDS = 15

FIRST_PAUSE_SECONDS = 0.1
MAX_PAUSE_SECONDS = 5


class Client:
    """Calls one server. Safe for use by several threads."""

    def __init__(self, server: str, api_key: str = "", timeout: float = 10, patience: float = 60):
        """
        server is a URL, http://HOST:PORT or https://HOST[:PORT]; api_key may be
        empty if the server asks for none. One try of a call takes at most
        timeout seconds; patience is how long calls are repeated and lost
        streams opened again.
        """
        url = urlsplit(server)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError(f"server must be http://HOST:PORT or https://HOST[:PORT], not {server!r}")
        # Without this, gRPC waits up to two minutes before it dials again.
        options = [("grpc.max_reconnect_backoff_ms", MAX_PAUSE_SECONDS * 1000)]
        if url.scheme == "https":
            target = f"{url.hostname}:{url.port or 443}"
            self._channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(), options)
        else:
            self._channel = grpc.insecure_channel(f"{url.hostname}:{url.port or 80}", options)
        self._metadata = (("authorization", f"Bearer {api_key}"),) if api_key else ()
        self._timeout = timeout
        self._patience = patience
        self.jobs = job_service_pb2_grpc.JobServiceStub(self._channel)
        self.connections = connection_service_pb2_grpc.ConnectionServiceStub(self._channel)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exc) -> None:
        self._channel.close()

    def call(self, method, request):
        """Calls a method of a stub, and repeats the same request while the outcome is unknown.

        The idempotency key is part of the request. Make it before the call, from
        what is to happen, or make a UUID and store it first: a key that is made
        anew for each try would make a job of each try.
        """
        give_up = time.monotonic() + self._patience
        pauses = _pauses()
        while True:
            try:
                return method(request, timeout=self._timeout, metadata=self._metadata)
            except grpc.RpcError as error:
                if error.code() not in UNCERTAIN or time.monotonic() > give_up:
                    raise
            time.sleep(next(pauses))

    def follow(self, job_filter: job_service_pb2.EventFilter, cursor: str = "") -> Iterator[event_pb2.JobEvent]:
        """Gives every change of the jobs, each once, and never ends by itself.

        cursor is where to go on, JobEvent.cursor or an events_cursor; empty:
        everything that is kept. An event counts as processed when the caller
        asks for the next one. To go on after a restart of your program, store
        its cursor together with what you made of it.
        """
        request = job_service_pb2.StreamJobEventsRequest(filter=job_filter)
        request.max_duration.FromSeconds(STREAM_SECONDS)
        if cursor:
            request.after_cursor = cursor
        else:
            request.from_beginning = True
        seen = {}  # by job: the last sequence
        give_up = time.monotonic() + self._patience
        pauses = _pauses()
        while True:
            stream = self.jobs.StreamJobEvents(
                request, timeout=STREAM_SECONDS + STREAM_MARGIN_SECONDS, metadata=self._metadata
            )
            try:
                for response in stream:
                    event = response.event
                    change = event.job_changed
                    # Heartbeats are no changes. Delivery is at least once.
                    if event.HasField("job_changed") and change.sequence > seen.get(change.job_id, 0):
                        yield event
                        seen[change.job_id] = change.sequence
                    if event.cursor:
                        request.after_cursor = event.cursor  # unsets from_beginning
                    give_up = time.monotonic() + self._patience
                    pauses = _pauses()
            except grpc.RpcError as error:
                if error.code() in FINAL or time.monotonic() > give_up:
                    raise
            finally:
                stream.cancel()
            time.sleep(next(pauses))


def error_detail(error: grpc.RpcError) -> Optional[error_pb2.ErrorDetail]:
    """Gives what the server says about an error in a form for programs; None for
    errors that did not come from the service, such as a lost connection."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for packed in status_pb2.Status.FromString(value).details:
                detail = error_pb2.ErrorDetail()
                if packed.Unpack(detail):
                    return detail
    return None


def enum_name(enum, number: int) -> str:
    """Names a value, also one that a newer server knows and this code does not."""
    return enum.Name(number) if number in enum.values() else str(number)


def _pauses() -> Iterator[float]:
    """Grows from a tenth of a second to five, each spread so that many clients do
    not come back at the same moment."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        yield pause * random.uniform(0.5, 1)
        pause = min(2 * pause, MAX_PAUSE_SECONDS)
