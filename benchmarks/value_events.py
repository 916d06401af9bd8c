"""The events of ``json_events`` as Avro and as Protobuf: their schemas, and the bytes that fastavro and Google's protobuf write.

Times are ``timestamp-millis`` and ``google.protobuf.Timestamp``, as producers write them; all else has the type that JSON shows.
"""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Callable, Sequence
from typing import Any

import fastavro
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from frazil.schemas.framing import WriterSchema
from frazil.schemas.protobuf.text import Message, read_file

SCHEMA_ID = 1
AVRO_HEAD = b"\0" + SCHEMA_ID.to_bytes(4, "big")
PROTOBUF_HEAD = AVRO_HEAD + b"\0"

_TIME = {"type": "long", "logicalType": "timestamp-millis"}


def _record(title: str, /, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"type": "record", "name": title, "fields": [{"name": field, "type": kind} for field, kind in fields.items()]}


_TEXT_OR_NULL = ["null", "string"]
AVRO: dict[str, dict[str, Any]] = {
    "s": _record(
        "Event",
        event_id="long", user_id="string", kind="string", ts=_TIME, price="double", quantity="int", is_new="boolean", page="string",
        geo=_record("Geo", country="string", lat="double", lon="double"), session="string", referrer=_TEXT_OR_NULL, coupon=_TEXT_OR_NULL,
    ),
    "b": _record(
        "Order",
        order_id="long", trace="string", created=_TIME,
        customer=_record(
            "Customer",
            id="long", name="string", email="string",
            address=_record("Address", street="string", city="string", zip="string", country="string", lat="double", lon="double"),
        ),
        items={
            "type": "array",
            "items": _record(
                "Item",
                sku="string", title="string", quantity="int", price="double", tags={"type": "array", "items": "string"}, gift="boolean",
            ),
        },
        note="string", total="double", device="string", agent="string", discount=["null", "double"], paid="boolean",
    ),
}  # fmt: skip
PROTO: dict[str, str] = {
    "s": """syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Event {
  message Geo { string country = 1; double lat = 2; double lon = 3; }
  int64 event_id = 1; string user_id = 2; string kind = 3; google.protobuf.Timestamp ts = 4; double price = 5; int32 quantity = 6;
  bool is_new = 7; string page = 8; Geo geo = 9; string session = 10; optional string referrer = 11; optional string coupon = 12;
}""",
    "b": """syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order {
  message Address { string street = 1; string city = 2; string zip = 3; string country = 4; double lat = 5; double lon = 6; }
  message Customer { int64 id = 1; string name = 2; string email = 3; Address address = 4; }
  message Item { string sku = 1; string title = 2; int32 quantity = 3; double price = 4; repeated string tags = 5; bool gift = 6; }
  int64 order_id = 1; string trace = 2; google.protobuf.Timestamp created = 3; Customer customer = 4; repeated Item items = 5;
  string note = 6; double total = 7; string device = 8; string agent = 9; optional double discount = 10; bool paid = 11;
}""",
}
_TIMES = {"s": "ts", "b": "created"}
_SCALARS = {"double": 1, "int64": 3, "int32": 5, "bool": 8, "string": 9}


def schema_of(form: str, kind: str) -> WriterSchema:
    """What the registry has."""
    if form == "avro":
        return WriterSchema(kind="AVRO", text=json.dumps(AVRO[kind]))
    return WriterSchema(kind="PROTOBUF", text=PROTO[kind])


def message_class(kind: str) -> type[Any]:
    """Google's class for the message of a kind of event, without a compiler: from the .proto text as we read it."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    file = descriptor_pb2.FileDescriptorProto(name=f"{kind}.proto", syntax="proto3", dependency=["google/protobuf/timestamp.proto"])
    (outer,) = read_file(PROTO[kind]).messages
    _describe(outer, file.message_type.add())
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(outer.name))


def _describe(message: Message, into: descriptor_pb2.DescriptorProto) -> None:
    into.name = message.name.rpartition(".")[2]
    for inner in message.messages:
        _describe(inner, into.nested_type.add())
    for one in message.fields:
        field = into.field.add(name=one.name, number=one.number, label=3 if one.label == "repeated" else 1)
        if one.type in _SCALARS:
            field.type = _SCALARS[one.type]
        else:
            outer = message.name.partition(".")[0]
            field.type, field.type_name = 11, "." + one.type if one.type.startswith("google") else f".{outer}.{one.type}"
        if one.label == "optional":
            field.proto3_optional, field.oneof_index = True, len(into.oneof_decl)
            into.oneof_decl.add(name=f"_{one.name}")


def as_avro(kind: str, events: Sequence[bytes]) -> list[bytes]:
    """Events as fastavro writes them, with the head of the wire format."""
    schema = fastavro.parse_schema(AVRO[kind])
    found = []
    for event in events:
        values, out = json.loads(event), io.BytesIO()
        values[_TIMES[kind]] = datetime.datetime.fromisoformat(values[_TIMES[kind]])
        fastavro.schemaless_writer(out, schema, {"coupon": None, **values} if kind == "s" else values)
        found.append(AVRO_HEAD + out.getvalue())
    return found


def as_protobuf(kind: str, events: Sequence[bytes]) -> list[bytes]:
    """Events as Google's protobuf writes them, with the head of the wire format."""
    make = message_class(kind)
    found = []
    for event in events:
        values = json.loads(event)
        time = datetime.datetime.fromisoformat(values.pop(_TIMES[kind]))
        message = make(**{name: value for name, value in values.items() if value is not None})
        getattr(message, _TIMES[kind]).FromDatetime(time)
        found.append(PROTOBUF_HEAD + message.SerializeToString())
    return found


AS: dict[str, Callable[[str, Sequence[bytes]], list[bytes]]] = {"avro": as_avro, "protobuf": as_protobuf}
