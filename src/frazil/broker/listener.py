"""The listening sockets and the tasks that accept.

Connections are accepted one by one, not in asyncio's way of taking all that wait before any protocol sees its first one: a
crowd would use up every file the process may open before the bound on connections is looked at.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from frazil.broker.complaints import Complaints
from frazil.broker.connection import Connection
from frazil.broker.settings import BrokerSettings
from frazil.kit.tasks import spawn

_BACKLOG = 1024
_PAUSE_S = 0.2
"""How long to wait when the system refuses a connection (no files, no memory)."""


class Listener:
    """Bound ports. Clients are refused until ``open_doors``."""

    def __init__(self, sockets: list[socket.socket], connection: Callable[[], Connection], complaints: Complaints) -> None:
        self._sockets = sockets
        self._connection = connection
        self._complaints = complaints
        self.tasks: list[asyncio.Task[None]] = []
        """What accepts, once the doors are open."""
        self.port: int = sockets[0].getsockname()[1]

    def open_doors(self) -> None:
        """Begins to accept. Raises OSError."""
        for door in self._sockets:
            door.listen(_BACKLOG)
        self.tasks = [spawn(f"accept on {door.getsockname()[0]}", self._accept(door)) for door in self._sockets]

    async def _accept(self, door: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                peer, _ = await loop.sock_accept(door)
                await loop.connect_accepted_socket(self._connection, peer)
            except OSError as error:
                self._complaints.warn(f"a connection could not be accepted: {error.strerror}")
                await asyncio.sleep(_PAUSE_S)

    def close(self) -> None:
        """Accepts no more; the ports are free."""
        loop = asyncio.get_running_loop()
        for task in self.tasks:
            task.cancel()
        for door in self._sockets:
            if door.fileno() >= 0:
                loop.remove_reader(door.fileno())
                door.close()


async def listen(settings: BrokerSettings, connection: Callable[[], Connection], complaints: Complaints) -> Listener:
    """Binds every address of the host without accepting yet. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(settings.host or None, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            door = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(door)
            door.settimeout(0)
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                door.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            port = settings.port or (sockets[0].getsockname()[1] if len(sockets) > 1 else 0)
            door.bind((address[0], port, *address[2:]))
    except OSError:
        for door in sockets:
            door.close()
        raise
    return Listener(sockets, connection, complaints)
