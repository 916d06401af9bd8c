//! The kernel's own files, read without the border to Python.
#![allow(dead_code)]

#[path = "../../../native/src/json/columns.rs"]
pub mod columns;
#[path = "../../../native/src/json/cursor.rs"]
pub mod cursor;
#[path = "../../../native/src/json/names.rs"]
pub mod names;
#[path = "../../../native/src/json/numbers.rs"]
pub mod numbers;
#[path = "../../../native/src/json/parse.rs"]
pub mod parse;
#[path = "../../../native/src/json/plan.rs"]
pub mod plan;
#[path = "../../../native/src/json/slice.rs"]
pub mod slice;
#[path = "../../../native/src/json/texts.rs"]
pub mod texts;
