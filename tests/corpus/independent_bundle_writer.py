"""A second writer of .kfb and .fzx, from the byte tables alone; imports nothing of the product. Run with -m to write bundle/*.hex."""

import pathlib
import struct

from tests.corpus.independent_writer import MARKER, batch, crc32c, rows

FOLDER = pathlib.Path(__file__).parent / "bundle"


def bundle(runs):
    """runs: (topic id, partition, [batches]) in any order"""
    data, directory = b"", b""
    for topic_id, partition, batches in sorted(runs):
        run = b"".join(batches)
        fields = [struct.unpack(">2xiqq14xi", one[21:61]) for one in batches]
        numbers = len(data), len(run), len(batches), sum(field[3] for field in fields)
        times = fields[0][1], max(field[2] for field in fields)
        directory += topic_id + struct.pack(">iIIII", partition, *numbers)
        directory += struct.pack(">qqqI", sum(field[0] + 1 for field in fields), *times, crc32c(run))
        data += run
    return data + directory + struct.pack(">IIHH", len(directory), crc32c(directory), 1, 0) + b"FZB1"


def sidecar(batches, aborted):
    out, position = b"FZX1\0\x01\0\0" + struct.pack(">III", crc32c(b"".join(batches)), len(batches), len(aborted)), 32
    for one in batches:
        out += one[:8] + struct.pack(">i", position) + one[35:43]
        position += len(one)
    out += b"".join(struct.pack(">qqq", *span) for span in aborted)
    return out + struct.pack(">I", crc32c(out))


RUNS = [
    (b"\x02" * 16, 10, [batch(0, rows(2))]),
    (b"\x01" * 16, 1, [batch(0, rows(3)), batch(0, rows(20, 30), 4), batch(0, rows(2), deltas=[0, 5], last=9)]),
    (b"\x02" * 16, 2, [batch(0, rows(1, at=-5))]),
]
SEGMENT = [batch(5, rows(2), 0, 0x10, (9, 0, 0)), batch(7, MARKER, 0, 0x30, (9, 0, -1)), batch(8, rows(1))]
ABORTED = [(9, 5, 7)]
FILES = {"three-runs.kfb": bundle(RUNS), "aborted.fzx": sidecar(SEGMENT, ABORTED)}
if __name__ == "__main__":
    for name, data in FILES.items():
        (FOLDER / f"{name}.hex").write_text(data.hex("\n", 64) + "\n")
