//! Avro and Protobuf values to typed Arrow columns. The Python twin is `src/frazil/schemas/avro/written.py`; both answer the same.

mod avro;
mod cursor;
mod enums;
mod heads;
mod ops;
mod protobuf;
mod put;
mod python;
mod slice;
mod verify;

pub use python::{find_heads, WrittenPlan};
