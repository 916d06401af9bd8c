//! Runs of patched Kafka v2 batches to Arrow columns. Same contract as `frazil/records/scanning.py`, which is the reference.
mod codecs;
mod columns;
mod frame;
mod python;
mod records;
mod scan;

pub use python::Scanner;
