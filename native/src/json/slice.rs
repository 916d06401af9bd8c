//! All records of a slice.

use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::columns::{Scale, Struct};
use super::parse::{Reader, Rules};
use super::plan::Plan;

/// The answer for a slice: the rows that are plainly good, and the records that are not, ascending.
pub struct Laid {
    pub rows: ArrayData,
    pub unsure: Vec<u32>,
}

/// The records as they came: ends within `data`, and which have a value.
pub struct Records<'a> {
    pub data: &'a [u8],
    /// One more than there are records.
    pub ends: Ends<'a>,
    pub is_null: &'a dyn Fn(usize) -> bool,
}

pub enum Ends<'a> {
    Small(&'a [i32]),
    Large(&'a [i64]),
}

impl Ends<'_> {
    pub fn count(&self) -> usize {
        match self {
            Ends::Small(ends) => ends.len() - 1,
            Ends::Large(ends) => ends.len() - 1,
        }
    }

    pub fn at(&self, row: usize) -> usize {
        match self {
            Ends::Small(ends) => ends[row] as usize,
            Ends::Large(ends) => ends[row] as usize,
        }
    }
}

/// Rows after which the room for all of them is guessed from those read.
pub const GUESS_AFTER: [usize; 2] = [256, 4096];

/// Reads all records but those of `omit` (ascending).
pub fn lay(plan: &Plan, to: &DataType, rules: Rules, records: &Records, omit: &[u32]) -> Laid {
    let Plan::Struct(names, members) = plan else { unreachable!("a plan of rows is one of a struct") };
    let count = records.ends.count();
    let mut rows = Struct::new(names, members, count - omit.len());
    let mut reader = Reader::new(rules);
    let mut unsure = Vec::new();
    let mut omit = omit.iter().copied().peekable();
    let text = Text::of(records);
    for row in 0..count {
        if omit.next_if_eq(&(row as u32)).is_some() {
            continue;
        }
        let (start, stop) = (records.ends.at(row), records.ends.at(row + 1));
        let read = if (records.is_null)(row) {
            reader.no_record(&mut rows)
        } else if text.is_whole(records.data, start, stop) {
            reader.record(&mut rows, records.data, start, stop)
        } else {
            Err(super::cursor::Unsure)
        };
        if read.is_err() {
            unsure.push(row as u32);
        }
        if GUESS_AFTER.contains(&row) {
            rows.reserve(Scale { rows: row, of: count, most: records.ends.at(count) - records.ends.at(0) });
        }
    }
    Laid { rows: rows.finish(to), unsure }
}

/// Whether the bytes of records are UTF-8. Asked of all at once; record by record only when not all are.
enum Text {
    All,
    Some,
}

impl Text {
    fn of(records: &Records) -> Text {
        let (start, stop) = (records.ends.at(0), records.ends.at(records.ends.count()));
        let all = records.data.get(start..stop).is_some_and(|bytes| simdutf8::basic::from_utf8(bytes).is_ok());
        if all {
            Text::All
        } else {
            Text::Some
        }
    }

    /// With all bytes UTF-8, a record is when it begins and stops between characters.
    #[inline(always)]
    fn is_whole(&self, data: &[u8], start: usize, stop: usize) -> bool {
        let between = |at: usize| at >= data.len() || data[at] & 0xC0 != 0x80;
        match self {
            Text::All => start <= stop && stop <= data.len() && between(start) && between(stop),
            Text::Some => data.get(start..stop).is_some_and(|bytes| simdutf8::basic::from_utf8(bytes).is_ok()),
        }
    }
}
