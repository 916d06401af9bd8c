"""``frazil dev``: broker and landing as processes under one parent on a locked data directory."""

from __future__ import annotations

import asyncio
import logging
import pathlib
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping

from frazil.assembly.log_lines import set_up_logging
from frazil.assembly.settings import FrazilSettings
from frazil.assembly.stopping import stop_requested
from frazil.kit.errors import FrazilError, Refused
from frazil.kit.tasks import spawn
from frazil.metadata.directory import LockedDirectory

_LOG = logging.getLogger("frazil.dev")
_RESTART_DELAY_S = 1.0
_STOP_S = 30.0
_REFUSED_CODE = 1
_REFUSED_WITHIN_S = 30.0


async def run_dev(settings: FrazilSettings, *, config: str | None, flags: Mapping[str, str]) -> None:
    """Runs until SIGTERM or SIGINT. A child that dies is started again, and that is said.

    Raises Refused when another ``dev`` has the directory, or when a child refuses to start at all.
    """
    set_up_logging(settings.log_level)
    with LockedDirectory(pathlib.Path(settings.data_dir)):
        async with stop_requested(supervised=False) as stop:
            command = [sys.executable, "-m", "frazil", *_arguments(config, flags)]
            served = settings.registry.port and not settings.registry.url
            roles = {"broker": ["broker"], "land": ["land", *(["--with-registry"] if served else [])]}
            keepers = [spawn(f"keep {role}", _keep(role, [*command, *words, "--supervised"], stop)) for role, words in roles.items()]
            results = await asyncio.gather(*keepers, return_exceptions=True)
    for result in results:
        if isinstance(result, Refused):
            raise result
        if isinstance(result, BaseException):
            raise FrazilError(f"a child process did not stop: {result!r}") from result


async def _keep(role: str, command: list[str], stop: asyncio.Event) -> None:
    """Starts the child again whenever it ends, until ``stop``; then ends it politely, at last by force.

    A child that refuses at once (a taken port, a setting that cannot be) would refuse for ever: everything stops.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    first = True
    while not stop.is_set():
        # A session of its own, so that a terminal's Ctrl-C reaches only the parent and children stop in order.
        process = await asyncio.create_subprocess_exec(*command, start_new_session=True)
        ended = spawn(f"{role} ended", process.wait())
        stopped = spawn(f"{role} stop", stop.wait())
        await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if stop.is_set():
            await _end(role, process)
            return
        if first and process.returncode == _REFUSED_CODE and loop.time() - began < _REFUSED_WITHIN_S:
            stop.set()
            raise Refused(f"{role} did not start; its message is above")
        first = False
        _LOG.error("%s ended with code %s; starting it again in %.0f s", role, process.returncode, _RESTART_DELAY_S)
        await asyncio.sleep(_RESTART_DELAY_S)


async def _end(role: str, process: Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        async with asyncio.timeout(_STOP_S):
            await process.wait()
    except TimeoutError:
        _LOG.error("%s did not stop within %.0f s; killing it", role, _STOP_S)
        process.kill()
        await process.wait()


def _arguments(config: str | None, flags: Mapping[str, str]) -> list[str]:
    arguments = ["--config", config] if config else []
    for name, value in flags.items():
        arguments += ["--set", f"{name}={value}"]
    return arguments
