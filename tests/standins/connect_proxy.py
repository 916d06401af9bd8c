"""A proxy that lets clients reach names that do not exist: CONNECT host:port goes to a loopback port of our choice, to nothing else."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator, Mapping


class ConnectProxy:
    """``routes``: "host:port" → loopback port. ``seen`` has every name asked for."""

    def __init__(self, routes: Mapping[str, int]) -> None:
        self.routes = dict(routes)
        self.seen: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="connect proxy", daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            head = b""
            while b"\r\n\r\n" not in head and len(head) < 65_536:
                part = client.recv(4096)
                if not part:
                    return
                head += part
            method, _, rest = head.decode("latin-1").partition(" ")
            place = rest.split(" ")[0]
            self.seen.append(place)
            port = self.routes.get(place)
            if method != "CONNECT" or port is None:
                client.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
                return
            with socket.create_connection(("127.0.0.1", port)) as server:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                _copy(client, server)


def _copy(left: socket.socket, right: socket.socket) -> None:
    other = {left: right, right: left}
    while True:
        ready, _, _ = select.select([left, right], [], [], 60)
        if not ready:
            return
        for side in ready:
            try:
                data = side.recv(65_536)
                if not data:
                    return
                other[side].sendall(data)
            except OSError:
                return


@contextlib.contextmanager
def running_proxy(routes: Mapping[str, int]) -> Iterator[ConnectProxy]:
    proxy = ConnectProxy(routes)
    try:
        yield proxy
    finally:
        proxy.close()
