"""The listening socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from frazil.broker.connection import Connection
from frazil.broker.settings import BrokerSettings

_BACKLOG = 1024


class Listener:
    """A bound port. Connections are refused until ``open_doors``."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        self.port: int = server.sockets[0].getsockname()[1]

    async def open_doors(self) -> None:
        """Begins to accept."""
        await self._server.start_serving()

    def close(self) -> None:
        """Accepts no more."""
        self._server.close()

    async def wait_closed(self) -> None:
        """Returns when the port is closed."""
        await self._server.wait_closed()


async def listen(settings: BrokerSettings, connection: Callable[[], Connection]) -> Listener:
    """Binds the port without accepting yet. Raises OSError."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(connection, settings.host, settings.port, backlog=_BACKLOG, start_serving=False)
    return Listener(server)
