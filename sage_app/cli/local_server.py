"""Servers for this machine alone: a socket on the loopback device."""

from __future__ import annotations

import socket

from sage_core.errors import InputError

HOST = "127.0.0.1"


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
