"""Servers for this machine alone: a socket on the loopback device, and uvicorn's protocol with limits."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from sage_core.errors import InputError

HOST = "127.0.0.1"
# Until the head of a request has come, and the whole of it.
_HEAD_SECONDS = 10.0
_REQUEST_SECONDS = 40.0
# Beyond this the oldest one that has asked for nothing is closed.
_MOST_CONNECTIONS = 200


def listen_locally(port: int) -> socket.socket:
    """A socket that listens on the loopback device; 0 for any port that is free.

    Raises:
        InputError: Where the port cannot be used.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()  # now, for two sockets may be bound to one port until one of them listens
    except OSError as error:
        listening.close()
        raise InputError(
            f"port {port} of {HOST} cannot be used ({error.strerror}): name another, or 0"
        ) from None
    return listening


def limited_protocol(most_bytes: int, connection_seconds: float | None = None) -> type[asyncio.Protocol]:
    """Uvicorn's protocol with limits: it waits for a request, and reads its body, without end.

    A connection ends that brings more than ``most_bytes`` in a request, or is ``connection_seconds`` old.
    """
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Limited(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._began, self._bytes = self.loop.time(), 0
            idle: list[Any] = [c for c in self.connections if isinstance(c, Limited) and c.cycle is None]
            if len(self.connections) > _MOST_CONNECTIONS:
                min(idle, key=lambda c: c._began).transport.abort()
            if connection_seconds is not None:
                self.loop.call_later(connection_seconds, transport.abort)
            self._require_request()

        def data_received(self, data: bytes) -> None:
            self._bytes += len(data)
            return self.transport.abort() if self._bytes > most_bytes else super().data_received(data)

        def on_response_complete(self) -> None:
            self._began, self._bytes = self.loop.time(), 0
            super().on_response_complete()

        def _require_request(self) -> None:
            limit = {h11.IDLE: _HEAD_SECONDS, h11.SEND_BODY: _REQUEST_SECONDS}.get(self.conn.their_state)
            if limit is not None and self.loop.time() - self._began >= limit:
                self.transport.abort()
            elif not self.transport.is_closing():
                self.loop.call_later(min(1.0, _HEAD_SECONDS), self._require_request)

    return Limited
