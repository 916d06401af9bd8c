"""``python -m codegen SOURCE``: SOURCE is a kafka-clients jar, a wheel or zip carrying one, or a directory of definitions."""

from __future__ import annotations

import argparse
from pathlib import Path

from codegen.definitions import read_definitions
from codegen.modules import modules

TARGET = Path(__file__).resolve().parent.parent / "src" / "frazil" / "wire" / "messages"


def main() -> None:
    """Write all message modules."""
    parser = argparse.ArgumentParser(prog="codegen", description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("--into", type=Path, default=TARGET)
    arguments = parser.parse_args()
    files = modules(read_definitions(arguments.source))
    for name, text in files.items():
        (arguments.into / name).write_text(text)
    print(f"{len(files)} modules into {arguments.into}")


if __name__ == "__main__":
    main()
