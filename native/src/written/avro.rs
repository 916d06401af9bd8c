//! Avro's binary encoding, in one pass straight into columns (specification, "Binary Encoding").

use super::cursor::Cursor;
use super::ops::{Op, Place, Record};
use super::put;
use super::slice::{spare, Reader};
use crate::json::columns::{Column, Struct};
use crate::json::cursor::{Sure, Unsure};

impl<'p> Reader<'p> {
    pub fn record(&mut self, record: &Record, to: &mut Struct<'p>, at: &mut Cursor) -> Sure<()> {
        for (place, op) in &record.fields {
            match *place {
                Place::Member(member) => self.value(op, &mut to.members[member].column, at)?,
                Place::Spare(number) => spare(self, number, |reader, column| reader.value(op, column, at))?,
                Place::Nowhere => nothing(op, at)?,
            }
        }
        for member in &record.absent {
            to.members[*member].column.push_null();
        }
        to.close();
        Ok(())
    }

    #[inline(always)]
    fn value(&mut self, op: &Op, to: &mut Column<'p>, at: &mut Cursor) -> Sure<()> {
        match op {
            Op::Text => put::text(to, sized(at)?),
            Op::Integer(narrow) => put::integer(to, integer(at, *narrow)?),
            Op::Double => put::double(to, f64::from_le_bytes(at.array()?)),
            Op::Boolean => put::boolean(to, u64::from(at.byte()?)),
            Op::Null => {
                to.push_null();
                Ok(())
            }
            Op::Union(branches) => {
                let number = usize::try_from(at.zigzag()?).map_err(|_| Unsure)?;
                self.inner_value(branches.get(number).ok_or(Unsure)?, to, at)
            }
            _ => self.inner_value(op, to, at),
        }
    }

    #[inline(never)]
    fn inner_value(&mut self, op: &Op, to: &mut Column<'p>, at: &mut Cursor) -> Sure<()> {
        match op {
            Op::Micros { narrow, times, parts, low, high } => {
                put::micros(to, micros(integer(at, *narrow)?, *times, *parts, (*low, *high))?)
            }
            Op::Enum(symbols) => put::symbol(to, symbols.find(at.zigzag()?).ok_or(Unsure)?),
            Op::Record(record) => match to {
                Column::Struct(column) => self.record(record, column, at),
                _ => Err(Unsure),
            },
            Op::Array(item) => self.array(item, to, at),
            Op::Map(item) => self.map(item, to, at),
            Op::Single => put::single(to, f32::from_le_bytes(at.array()?)),
            Op::Bytes => put::bytes(to, sized(at)?),
            Op::Uuid => put::uuid(to, sized(at)?),
            Op::Date => put::date(to, integer(at, true)?),
            Op::Fixed(size) => put::bytes(to, at.take(*size)?),
            Op::Decimal { size, scale } => {
                let bytes = match size {
                    Some(size) => at.take(*size)?,
                    None => sized(at)?,
                };
                put::decimal(to, put::big_endian(bytes)?, *scale)
            }
            Op::Text | Op::Integer(_) | Op::Double | Op::Boolean | Op::Null | Op::Union(_) => self.value(op, to, at),
            _ => Err(Unsure),
        }
    }

    fn array(&mut self, op: &Op, to: &mut Column<'p>, at: &mut Cursor) -> Sure<()> {
        let Column::List(ends, item) = to else { return Err(Unsure) };
        let mut end = ends.last();
        loop {
            let count = block(at)?;
            if count == 0 {
                break;
            }
            for _ in 0..count {
                self.value(op, &mut item.column, at)?;
            }
            end += count;
        }
        ends.push(end);
        Ok(())
    }

    fn map(&mut self, op: &Op, to: &mut Column<'p>, at: &mut Cursor) -> Sure<()> {
        let Column::Map(ends, keys, item) = to else { return Err(Unsure) };
        let begin = ends.last();
        let mut end = begin;
        loop {
            let count = block(at)?;
            if count == 0 {
                break;
            }
            for _ in 0..count {
                let key = sized(at)?;
                if !put::is_utf8(key) {
                    return Err(Unsure);
                }
                keys.bytes.extend_from_slice(key);
                keys.close();
                self.value(op, &mut item.column, at)?;
            }
            end += count;
        }
        keys.distinct_from(begin)?;
        ends.push(end);
        Ok(())
    }
}

/// A value without column, which must be null.
fn nothing(op: &Op, at: &mut Cursor) -> Sure<()> {
    match op {
        Op::Null => Ok(()),
        Op::OnlyBranch(branch) if at.zigzag()? == *branch => Ok(()),
        _ => Err(Unsure),
    }
}

#[inline(always)]
fn integer(at: &mut Cursor, narrow: bool) -> Sure<i64> {
    let number = at.zigzag()?;
    if narrow && i32::try_from(number).is_err() {
        return Err(Unsure);
    }
    Ok(number)
}

#[inline(always)]
fn sized<'a>(at: &mut Cursor<'a>) -> Sure<&'a [u8]> {
    let size = usize::try_from(at.zigzag()?).map_err(|_| Unsure)?;
    at.take(size)
}

#[inline(always)]
fn micros(value: i64, times: i64, parts: i64, bounds: (i64, i64)) -> Sure<i64> {
    let scaled = value.checked_mul(times).ok_or(Unsure)?;
    if parts != 1 && scaled % parts != 0 {
        return Err(Unsure);
    }
    let micros = if parts == 1 { scaled } else { scaled / parts };
    if bounds.0 <= micros && micros <= bounds.1 {
        Ok(micros)
    } else {
        Err(Unsure)
    }
}

/// The number of items of the next block; each has a byte at least, or the schema would have been refused.
#[inline(always)]
fn block(at: &mut Cursor) -> Sure<usize> {
    let mut count = at.zigzag()?;
    if count < 0 {
        count = count.checked_neg().ok_or(Unsure)?;
        at.zigzag()?;
    }
    let count = usize::try_from(count).map_err(|_| Unsure)?;
    if count > at.left() {
        return Err(Unsure);
    }
    Ok(count)
}
