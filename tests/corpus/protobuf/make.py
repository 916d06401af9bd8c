"""Writes everything.json: what Google's protobuf and Confluent's serializer write for everything.proto.

Run apart from Frazil: pip install grpcio-tools "confluent-kafka[protobuf,schemaregistry]"; python make.py URL-of-a-registry
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from grpc_tools import protoc

HERE = pathlib.Path(__file__).parent


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        well_known = pathlib.Path(protoc.__file__).parent / "_proto"
        assert protoc.main(["", f"-I{HERE}", f"-I{well_known}", f"--python_out={made}", "everything.proto"]) == 0
        sys.path.insert(0, made)
        import everything_pb2 as pb  # type: ignore[import-not-found]
    whole = pb.Everything(
        a_double=0.1,
        a_float=-1.5,
        an_int32=-(2**31),
        an_int64=-(2**63),
        a_uint32=2**32 - 1,
        a_uint64=2**64 - 1,
        a_sint32=-5,
        a_sint64=-(2**63),
        a_fixed32=2**32 - 1,
        a_fixed64=2**64 - 1,
        a_sfixed32=-7,
        a_sfixed64=-8,
        a_bool=True,
        a_string="日本",
        some_bytes=b"\x00\xff",
        suit=1,
        inner=pb.Everything.Inner(x=1, y=0),
        maybe=0,
        packed=[0, -1, 300],
        words=["", "a"],
        inners=[pb.Everything.Inner(x=1), pb.Everything.Inner(y=2)],
        counts={"a": 2**53 + 1},
        by_number={-3: pb.Everything.Inner(x=9)},
        message=pb.Everything.Inner(x=4),
        next=pb.Everything(an_int32=2),
    )
    whole.at.seconds, whole.at.nanos = -1, 500_000_000
    whole.wrapped.value = 0
    client = SchemaRegistryClient({"url": sys.argv[1]})
    context = SerializationContext("t", MessageField.VALUE)
    options = {"use.deprecated.format": False, "skip.known.types": True}
    found = {
        "first": ProtobufSerializer(pb.First, client, options)(pb.First(id=5), context).hex(),
        "inner": ProtobufSerializer(pb.Everything.Inner, client, options)(pb.Everything.Inner(x=3), context).hex(),
        "whole": ProtobufSerializer(pb.Everything, client, options)(whole, context).hex(),
        "empty": ProtobufSerializer(pb.Everything, client, options)(pb.Everything(), context).hex(),
        "unknown_symbol": ProtobufSerializer(pb.Everything, client, options)(pb.Everything(suit=77), context).hex(),
    }
    (HERE / "everything.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
