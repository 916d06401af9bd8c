"""Calls of a Hive metastore over thrift, in the offload, with the generated client that PyIceberg's wheel brings.

A connection serves one call at a time. What may have been applied when it broke is reported as unknown.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Any, Final, TypeVar

from frazil.catalogs.metastores.properties import HiveProperties
from frazil.kit.errors import Conflict, Missing, OutcomeUnknown, Refused, RetryLater
from frazil.kit.tasks import Offload

try:
    from hive_metastore.ThriftHiveMetastore import Client
    from hive_metastore.ttypes import (
        AlreadyExistsException,
        InvalidObjectException,
        InvalidOperationException,
        MetaException,
        NoSuchObjectException,
    )
    from thrift.protocol import TBinaryProtocol
    from thrift.Thrift import TApplicationException, TException
    from thrift.transport import TSocket, TTransport
except ImportError as error:
    raise Refused("a Hive metastore needs the Python package thrift: pip install 'frazil[hive]'") from error

T = TypeVar("T")
_CALL_MS: Final = 10_000
"""The longest one call may take: a lock is held for three of them, well under its bound."""
_IDLE_MAX: Final = 4
_MODIFIED: Final = "has been modified"
"""What a metastore says when an expected parameter has another value (HIVE-26882)."""


class HiveApi:
    """Connections to one metastore."""

    def __init__(self, properties: HiveProperties, offload: Offload) -> None:
        self._properties = properties
        self._offload = offload
        self._idle: list[tuple[Any, Any]] = []
        self._place = f"metastore {properties.host}:{properties.port}"

    async def call(self, work: Callable[[Any], T], *, what: str, applying: bool = False) -> T:
        """What ``work`` gives with a thrift client. ``applying``: it changes something, so a lost answer is unknown.

        Raises Missing, Conflict (taken, or an expected parameter differs), Refused, RetryLater, OutcomeUnknown.
        """
        return await self._offload.run(lambda: self._once(work, what, applying=applying))

    async def close(self) -> None:
        """Ends idle connections."""
        while self._idle:
            self._idle.pop()[0].close()

    def _once(self, work: Callable[[Any], T], what: str, *, applying: bool) -> T:
        transport, client = self._connection(what)
        kept = False
        try:
            value = work(client)
            kept = True
            return value
        except NoSuchObjectException as error:
            kept = True
            raise Missing(f"{what}: {_said(error)}") from None
        except AlreadyExistsException as error:
            kept = True
            raise Conflict(f"{what}: {_said(error)}") from None
        except (InvalidOperationException, InvalidObjectException) as error:
            kept = True
            raise Refused(f"{what}: {_said(error)}") from None
        except MetaException as error:
            if _MODIFIED in _said(error):
                kept = True
                raise Conflict(f"{what}: {_said(error)}") from None
            raise self._lost(f"{what}: {_said(error)}", applying=applying) from None
        except TApplicationException as error:
            raise self._lost(f"{what}: {self._place}: {_said(error)}", applying=applying) from None
        except (TException, OSError, EOFError) as error:
            raise self._lost(f"{what}: the connection to {self._place} broke: {error}", applying=applying) from None
        finally:
            if kept and len(self._idle) < _IDLE_MAX:
                self._idle.append((transport, client))
            else:
                transport.close()

    def _lost(self, why: str, *, applying: bool) -> RetryLater:
        return OutcomeUnknown(why) if applying else RetryLater(why)

    def _connection(self, what: str) -> tuple[Any, Any]:
        while self._idle:
            try:
                transport, client = self._idle.pop()
            except IndexError:
                break  # another thread took it
            if _alive(transport):
                return transport, client
            transport.close()
        socket = TSocket.TSocket(self._properties.host, self._properties.port)
        socket.setTimeout(min(self._properties.timeout_ms, _CALL_MS))
        transport = TTransport.TBufferedTransport(socket)
        client = Client(TBinaryProtocol.TBinaryProtocol(transport))
        try:
            transport.open()
            if self._properties.user:
                client.set_ugi(self._properties.user, [])
        except (TException, OSError, EOFError) as error:
            transport.close()
            raise RetryLater(f"{what}: {self._place} cannot be reached: {error}", after_ms=500) from None
        return transport, client


def _said(error: Exception) -> str:
    """The metastore's own words."""
    return str(getattr(error, "message", "") or "internal error")


def _alive(transport: Any) -> bool:  # noqa: ANN401 - thrift has no types
    """Whether a kept connection is still open: a server that ended it leaves something to read, the end."""
    handle = getattr(getattr(transport, "_TBufferedTransport__trans", None), "handle", None)
    return handle is not None and not select.select([handle], [], [], 0)[0]
