//! The beginning of a value that says which type it was written as: a zero byte, a schema's id, and for Protobuf the indexes.

use super::cursor::{unzigzag, Cursor};
use crate::json::cursor::{Sure, Unsure};

const PREFIX_BYTES: usize = 5;
const INDEXES_MAX: i64 = 32;

/// How many bytes at the beginning of `value` are its head. `indexed`: Protobuf's form.
#[inline(always)]
pub fn head_length(value: &[u8], indexed: bool) -> Sure<usize> {
    if value.len() < PREFIX_BYTES || value[0] != 0 {
        return Err(Unsure);
    }
    if !indexed {
        return Ok(PREFIX_BYTES);
    }
    if value.get(PREFIX_BYTES) == Some(&0) {
        return Ok(PREFIX_BYTES + 1);
    }
    let mut at = Cursor::new(&value[PREFIX_BYTES..]);
    let count = unzigzag(at.varint()?);
    if !(0..=INDEXES_MAX).contains(&count) {
        return Err(Unsure);
    }
    for _ in 0..count {
        at.varint()?;
    }
    Ok(PREFIX_BYTES + at.pos())
}
