//! JSON values to typed Arrow columns. The Python twin is `src/frazil/schemas/json.py`; both answer the same.

pub(crate) mod columns;
pub(crate) mod cursor;
pub(crate) mod names;
mod numbers;
mod parse;
pub(crate) mod plan;
pub(crate) mod python;
pub(crate) mod slice;
pub(crate) mod texts;

pub use python::JsonPlan;
