//! JSON values to typed Arrow columns. The Python twin is `src/frazil/schemas/json.py`; both answer the same.

mod columns;
mod cursor;
mod names;
mod numbers;
mod parse;
mod plan;
mod python;
mod slice;
mod texts;

pub use python::JsonPlan;
