"""Secrets outside Kubernetes: ``$FRAZIL_SECRETS_DIR/<name>/<key>``, the layout of a mounted Kubernetes Secret."""

from __future__ import annotations

import os
import pathlib

from frazil.admin.manifests.catalogspec import SECRET_KEYS
from frazil.admin.manifests.kafkasource import LOGIN_KEYS
from frazil.kit.errors import Refused

_BYTES_MAX = 64 * 1024


class SecretFiles:
    """An ``admin.manifests.secrets.SecretReader`` over a directory. Files are read at each call, so that a rotated secret is found."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def __call__(self, name: str) -> dict[str, str]:
        """The known keys of one secret, without the line break that ends a file. Raises Refused when there is no such secret."""
        if not self._directory:
            raise Refused(f"secret {name}: FRAZIL_SECRETS_DIR is not set; set it to a directory that holds {name}/client_id and so on")
        directory = pathlib.Path(self._directory) / name
        if not directory.is_dir():
            raise Refused(f"secret {name}: there is no directory {directory}; make it, with one file per key: {', '.join(SECRET_KEYS)}")
        return {key: _text(directory / key) for key in (*SECRET_KEYS, *LOGIN_KEYS) if (directory / key).is_file()}


def secret_files() -> SecretFiles:
    """The reader of this process."""
    return SecretFiles(os.environ.get("FRAZIL_SECRETS_DIR", ""))


def _text(path: pathlib.Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_BYTES_MAX + 1)
        if len(data) > _BYTES_MAX:
            raise Refused(f"secret file {path} is larger than {_BYTES_MAX} bytes")
        return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise Refused(f"secret file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Refused(f"secret file {path} is not UTF-8 text") from error
