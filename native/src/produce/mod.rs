//! Pipelined Produce requests cut out of a receive buffer, many at a time (`frazil.broker.bursts` has the contract and the twin).
mod python;
mod scan;

pub use python::scan_produce;
