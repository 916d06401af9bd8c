//! The records inside one uncompressed batch.
use super::columns::Columns;
use super::frame::{Frame, Unreadable};

/// The smallest record: length, attributes, time, offset, key length, value length, header count.
const RECORD_BYTES_MIN: usize = 7;

/// What a record, and a header, take in memory beside their bytes.
const RECORD_OVERHEAD: usize = 28;
const HEADER_OVERHEAD: usize = 8;
/// So much of that a batch may take whatever the limit is.
const OVERHEAD_FLOOR: usize = 16 << 20;

/// Why records cannot be read; turned into words once, off the hot path.
enum Bad {
    Cut,
    Malformed(&'static str),
}

/// A number that needs more than 64 bits: damage, except as a time that another large number brings back into range.
enum Number {
    Fits(i64),
    Wide(i128),
}

struct Cursor<'a> {
    data: &'a [u8],
    pos: usize,
}

impl<'a> Cursor<'a> {
    #[inline(always)]
    fn byte(&mut self) -> Result<u8, Bad> {
        let byte = *self.data.get(self.pos).ok_or(Bad::Cut)?;
        self.pos += 1;
        Ok(byte)
    }

    /// A zig-zag varint that must fit 64 bits.
    #[inline(always)]
    fn varint(&mut self) -> Result<i64, Bad> {
        let byte = self.byte()?;
        if byte < 0x80 {
            return Ok(zigzag(u64::from(byte)));
        }
        let second = self.byte()?;
        if second < 0x80 {
            return Ok(zigzag(u64::from(byte & 0x7f) | u64::from(second) << 7));
        }
        self.pos -= 2;
        match self.long_varint()? {
            Number::Fits(value) => Ok(value),
            Number::Wide(_) => Err(Bad::Malformed("a number is out of range")),
        }
    }

    /// A zig-zag varint of at most 10 bytes.
    #[inline(never)]
    fn long_varint(&mut self) -> Result<Number, Bad> {
        let mut raw: u128 = 0;
        for place in 0..10 {
            let byte = self.byte()?;
            raw |= u128::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                let value = (raw >> 1) as i128 ^ -((raw & 1) as i128);
                return Ok(i64::try_from(value).map_or(Number::Wide(value), Number::Fits));
            }
        }
        Err(Bad::Malformed("varint of more than 10 bytes"))
    }

    /// As many bytes as the length in front of them says; none for -1.
    #[inline(always)]
    fn blob(&mut self) -> Result<Option<&'a [u8]>, Bad> {
        let size = self.varint()?;
        if size < 0 {
            return if size == -1 { Ok(None) } else { Err(Bad::Malformed("a length is negative")) };
        }
        let rest = self.data.get(self.pos..).ok_or(Bad::Cut)?;
        let blob = usize::try_from(size).ok().and_then(|size| rest.get(..size)).ok_or(Bad::Cut)?;
        self.pos += blob.len();
        Ok(Some(blob))
    }

    /// The time of a record: `first_ms` plus the delta here, unless the log's own time takes its place.
    #[inline(always)]
    fn time(&mut self, first_ms: i64, append_ms: Option<i64>) -> Result<i64, Bad> {
        let delta = match self.data.get(self.pos) {
            Some(&byte) if byte < 0x80 => {
                self.pos += 1;
                Number::Fits(zigzag(u64::from(byte)))
            }
            _ => self.long_varint()?,
        };
        if let Some(time) = append_ms {
            return Ok(time);
        }
        let sum = match delta {
            Number::Fits(delta) => first_ms.checked_add(delta),
            Number::Wide(delta) => i64::try_from(i128::from(first_ms) + delta).ok(),
        };
        sum.ok_or(Bad::Malformed("a timestamp is out of range"))
    }
}

#[inline(always)]
fn zigzag(raw: u64) -> i64 {
    (raw >> 1) as i64 ^ -((raw & 1) as i64)
}

/// What the records of one batch are read for and against.
pub struct Wanted {
    /// Records below are checked and left out.
    pub first_offset: i64,
    /// Bytes the batch may take beside its keys, values and headers: two bytes of input can be a header.
    pub overhead_max: usize,
}

/// Appends the records in `data`. All are checked. On failure the caller cuts.
pub fn read_records(frame: &Frame, data: &[u8], wanted: &Wanted, columns: &mut Columns) -> Result<(), Unreadable> {
    let count = frame.record_count as usize; // `Frame::check`: not negative
    let overhead_max = wanted.overhead_max.max(OVERHEAD_FLOOR);
    let Some(left) = overhead_max.checked_sub(RECORD_OVERHEAD.saturating_mul(count)) else {
        return Err(Unreadable::new("records", format!("{count} records in one batch take more than {overhead_max} bytes of memory")));
    };
    let mut headers_left = left / HEADER_OVERHEAD;
    columns.reserve(count.min(data.len() / RECORD_BYTES_MIN), data.len());
    let mut cursor = Cursor { data, pos: 0 };
    let mut previous = -1;
    for number in 0..count {
        read_record(frame, &mut cursor, &mut previous, (wanted.first_offset, &mut headers_left), columns).map_err(|bad| match bad {
            Bad::Cut => Unreadable::new("records", format!("records end inside record {number}")),
            Bad::Malformed(why) => Unreadable::new("records", format!("record {number} is malformed: {why}")),
        })?;
    }
    match data.len() - cursor.pos {
        0 => Ok(()),
        left => Err(Unreadable::new("records", format!("{left} bytes follow the last record"))),
    }
}

#[inline(always)]
fn read_record(
    frame: &Frame,
    cursor: &mut Cursor,
    previous: &mut i64,
    (first_offset, headers_left): (i64, &mut usize),
    columns: &mut Columns,
) -> Result<(), Bad> {
    let length = cursor.varint()?;
    let end = cursor.pos as i64 + length.min(1 << 40);
    cursor.byte()?; // attributes, unused
    let timestamp_ms = cursor.time(frame.base_timestamp_ms, frame.append_time_ms())?;
    let delta = cursor.varint()?;
    if delta <= *previous || delta > i64::from(frame.last_offset_delta) {
        return Err(Bad::Malformed("an offset delta does not increase or is above the last"));
    }
    *previous = delta;
    let key = cursor.blob()?;
    let value = cursor.blob()?;
    let offset = frame.base_offset + delta; // at most the frame's last offset, which fits
    let wanted = offset >= first_offset;
    read_headers(cursor, headers_left, wanted, columns)?;
    if cursor.pos as i64 != end {
        return Err(Bad::Malformed("it does not end where its length says"));
    }
    if wanted {
        columns.keys.push(key);
        columns.values.push(value);
        columns.end_record(offset, timestamp_ms);
    }
    Ok(())
}

#[inline(always)]
fn read_headers(cursor: &mut Cursor, headers_left: &mut usize, wanted: bool, columns: &mut Columns) -> Result<(), Bad> {
    let count = cursor.varint()?;
    if count < 0 {
        return Err(Bad::Malformed("the header count is negative"));
    }
    *headers_left =
        usize::try_from(count).ok().and_then(|count| headers_left.checked_sub(count)).ok_or(Bad::Malformed("too many headers"))?;
    for _ in 0..count {
        let key = cursor.blob()?.ok_or(Bad::Malformed("a header key is null"))?;
        std::str::from_utf8(key).map_err(|_| Bad::Malformed("a header key is not UTF-8"))?;
        let value = cursor.blob()?;
        if wanted {
            columns.header_keys.push(Some(key));
            columns.header_values.push(value);
        }
    }
    Ok(())
}
