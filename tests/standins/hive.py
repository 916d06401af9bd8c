"""A strict Hive metastore on loopback: real thrift, locks that queue, expected parameters that are compared, faults on a script.

    with HiveDouble() as double:
        double.uri                            # hive://127.0.0.1:port
        double.script("cut/a", "ok", "fail/n")  # what the next create_table and alter_table meet
        double.tables["lake", "events"]       # a table as it stands

Words — /n: not applied, /a: applied all the same:
    ok cut/n cut/a fail/n fail/a modified late(seconds)
"""

from __future__ import annotations

import copy
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hive_metastore import ThriftHiveMetastore
from hive_metastore.ttypes import (
    AlreadyExistsException,
    Database,
    EnvironmentContext,
    GetTableResult,
    GetTablesResult,
    InvalidOperationException,
    LockResponse,
    LockState,
    MetaException,
    NoSuchLockException,
    NoSuchObjectException,
    ShowLocksResponse,
    ShowLocksResponseElement,
    Table,
)
from thrift.protocol import TBinaryProtocol
from thrift.server import TServer
from thrift.transport import TSocket, TTransport

from tests.standins.scripted import WORD, Scripted


class _Cut(TTransport.TTransportException):
    """The connection closes without an answer."""


@dataclass
class _Lock:
    id: int
    place: tuple[str, str]
    user: str
    host: str
    agent: str
    heartbeat_ms: int


@dataclass
class HiveDouble(Scripted):
    """See the module."""

    compares: bool = True
    """HIVE-26882: an expected parameter is compared. False: an older metastore, which ignores it."""
    seen: list[str] = field(default_factory=list)
    faults: deque[str] = field(default_factory=deque)
    databases: dict[str, Database] = field(default_factory=dict)
    tables: dict[tuple[str, str], Table] = field(default_factory=dict)
    locks: dict[int, _Lock] = field(default_factory=dict)
    unlocked_alters: int = 0
    """alter_table calls while their caller's table was not locked by anybody."""

    def __post_init__(self) -> None:
        self._guard = threading.RLock()
        self._next_lock = 1
        self.late: list[threading.Timer] = []
        self._socket = TSocket.TServerSocket("127.0.0.1", 0)
        self._socket.listen()
        self.port = int(self._socket.handle.getsockname()[1])
        processor = ThriftHiveMetastore.Processor(_Handler(self))
        self._server = _Server(processor, self._socket)
        self.thread = threading.Thread(target=self._server.serve, name="hive double", daemon=True)

    @property
    def uri(self) -> str:
        return f"hive://127.0.0.1:{self.port}"

    def end_server(self) -> None:
        self._server.stop()

    def leave_lock(self, database: str, name: str, *, agent: str) -> int:
        """A lock as a process that was killed leaves it."""
        with self._guard:
            return self._new_lock((database, name), "somebody", "elsewhere", agent)

    # --- used by the handler ---------------------------------------------------------------------------------------------

    def _new_lock(self, place: tuple[str, str], user: str, host: str, agent: str) -> int:
        lock = _Lock(id=self._next_lock, place=place, user=user, host=host, agent=agent, heartbeat_ms=int(time.time() * 1000))
        self._next_lock += 1
        self.locks[lock.id] = lock
        return lock.id

    def _state(self, lock: _Lock) -> int:
        first = min(other.id for other in self.locks.values() if other.place == lock.place)
        return int(LockState.ACQUIRED if lock.id == first else LockState.WAITING)

    def _meet(self, apply: Callable[[], None]) -> None:
        word = self.faults.popleft() if self.faults else "ok"
        found = WORD.fullmatch(word)
        assert found, word
        kind, applied, seconds = found.group(1), found.group(2), float(found.group(3) or 0)
        if kind == "ok":
            apply()
            return
        if kind == "late":
            timer = threading.Timer(seconds, self._arrive, (apply,))
            timer.daemon = True
            self.late.append(timer)
            timer.start()
            raise _Cut
        if applied == "a":
            apply()
        if kind == "cut":
            raise _Cut
        raise MetaException("The table has been modified. scripted" if kind == "modified" else "scripted failure")

    def _arrive(self, apply: Callable[[], None]) -> None:
        with self._guard:
            try:
                apply()
            except (MetaException, NoSuchObjectException, AlreadyExistsException) as error:
                self.seen.append(f"late: {type(error).__name__}")


class _Handler:
    """One method per call. Hive 4 has no ``get_table`` any more, so this has none either."""

    def __init__(self, double: HiveDouble) -> None:
        self._double = double

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_"):
            return object.__getattribute__(self, name)
        double: HiveDouble = object.__getattribute__(self, "_double")
        method = object.__getattribute__(self, name)

        def called(*arguments: Any) -> Any:
            with double._guard:
                double.seen.append(name)
                return method(*arguments)

        return called

    def get_all_databases(self) -> list[str]:
        return sorted(self._double.databases)

    def get_database(self, name: str) -> Database:
        if name not in self._double.databases:
            raise NoSuchObjectException(f"database hive.{name} not found")
        return self._double.databases[name]

    def create_database(self, database: Database) -> None:
        if database.name in self._double.databases:
            raise AlreadyExistsException(f"Database {database.name} already exists")
        self._double.databases[database.name] = database

    def get_table_req(self, request: Any) -> GetTableResult:
        return GetTableResult(table=copy.deepcopy(self._find(request.dbName, request.tblName)))

    def get_all_tables(self, database: str) -> list[str]:
        return [name for found, name in self._double.tables if found == database]

    def get_table_objects_by_name_req(self, request: Any) -> GetTablesResult:
        return GetTablesResult(tables=[self._double.tables[request.dbName, name] for name in request.tblNames])

    def create_table(self, table: Table) -> None:
        def apply() -> None:
            self._check(table)
            key = (table.dbName, table.tableName)
            if table.dbName not in self._double.databases:
                raise InvalidOperationException(f"no database {table.dbName}")
            if key in self._double.tables:
                raise AlreadyExistsException(f"Table hive.{table.dbName}.{table.tableName} already exists")
            self._double.tables[key] = table

        self._double._meet(apply)

    def alter_table_with_environment_context(self, database: str, name: str, table: Table, context: EnvironmentContext) -> None:
        given = context.properties or {}

        def apply() -> None:
            self._check(table)
            before = self._find(database, name)
            key = given.get("expected_parameter_key")
            have = before.parameters.get(key)
            if self._double.compares and key and have != given.get("expected_parameter_value"):
                raise MetaException(
                    f"The table has been modified. The parameter value for key '{key}' is '{have}'. "
                    f"The expected was value was '{given.get('expected_parameter_value')}'"
                )
            self._double.unlocked_alters += not any(lock.place == (database, name) for lock in self._double.locks.values())
            self._double.tables[database, name] = table

        if given.get("expected_parameter_value", "").startswith("frazil-asks"):
            apply()  # a question meets no fault of the script
        else:
            self._double._meet(apply)

    def drop_table(self, database: str, name: str, delete_data: bool) -> None:
        assert not delete_data, "files of a table are never the metastore's to delete"
        self._find(database, name)
        del self._double.tables[database, name]

    def lock(self, request: Any) -> LockResponse:
        part = request.component[0]
        self._find(part.dbname, part.tablename)
        lock_id = self._double._new_lock((part.dbname, part.tablename), request.user, request.hostname, request.agentInfo)
        return LockResponse(lockid=lock_id, state=self._double._state(self._double.locks[lock_id]))

    def check_lock(self, request: Any) -> LockResponse:
        lock = self._double.locks.get(request.lockid)
        if lock is None:
            raise NoSuchLockException(f"No such lock lockid:{request.lockid}")
        lock.heartbeat_ms = int(time.time() * 1000)
        return LockResponse(lockid=lock.id, state=self._double._state(lock))

    def unlock(self, request: Any) -> None:
        if self._double.locks.pop(request.lockid, None) is None:
            raise NoSuchLockException(f"No such lock lockid:{request.lockid}")

    def show_locks(self, request: Any) -> ShowLocksResponse:
        found = [
            ShowLocksResponseElement(
                lockid=lock.id,
                dbname=lock.place[0],
                tablename=lock.place[1],
                state=self._double._state(lock),
                lastheartbeat=lock.heartbeat_ms,
                user=lock.user,
                hostname=lock.host,
                agentInfo=lock.agent,
            )
            for lock in self._double.locks.values()
            if lock.place == (request.dbname, request.tablename)
        ]
        return ShowLocksResponse(locks=found)

    def _find(self, database: str, name: str) -> Table:
        if (database, name) not in self._double.tables:
            raise NoSuchObjectException(f"hive.{database}.{name} table not found")
        return self._double.tables[database, name]

    def _check(self, table: Table) -> None:
        for column in table.sd.cols:
            if len(column.comment or "") > 256 or len(column.type) > 4000 or len(column.name) > 128:
                raise MetaException(f"Put request failed: value of column {column.name[:60]} is too long")
        if any(len(text) > 4000 for text in table.parameters.values()):
            raise MetaException("Put request failed: PARAM_VALUE is too long")
        if table.dbName != table.dbName.lower() or table.tableName != table.tableName.lower():
            raise MetaException("names are kept in lower case")


class _Server(TServer.TServer):
    """A thread per connection; ``stop`` ends all of them."""

    def __init__(self, processor: Any, transport: TSocket.TServerSocket) -> None:
        super().__init__(
            processor, transport, TTransport.TBufferedTransportFactory(), TTransport.TBufferedTransportFactory(),
            TBinaryProtocol.TBinaryProtocolFactory(), TBinaryProtocol.TBinaryProtocolFactory(),
        )  # fmt: skip
        self._stopped = False
        self._open: set[Any] = set()

    def serve(self) -> None:
        while not self._stopped:
            try:
                client = self.serverTransport.accept()
            except OSError:
                return
            if client is None or self._stopped:
                return
            self._open.add(client)
            threading.Thread(target=self._converse, args=(client,), daemon=True).start()

    def _converse(self, client: Any) -> None:
        transport = self.inputTransportFactory.getTransport(client)
        protocol = self.inputProtocolFactory.getProtocol(transport)
        try:
            while not self._stopped:
                self.processor.process(protocol, protocol)
        except (TTransport.TTransportException, OSError, EOFError):
            pass
        finally:
            self._open.discard(client)
            transport.close()

    def stop(self) -> None:
        self._stopped = True
        handle = self.serverTransport.handle
        handle.shutdown(2)
        self.serverTransport.close()
        for client in list(self._open):
            client.close()
