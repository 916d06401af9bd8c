//! One pass over each record, straight into the columns: no tree of the document is made.
//!
//! A record that is not plainly good anywhere is cut back out of all columns and reported; the exact road of the caller decides
//! about it and finds the words. So nothing is accepted here that the exact road would refuse (`docs/json-semantics.md`).

use super::columns::{Column, Member, Struct};
use super::cursor::{Cursor, Sure, Unsure};
use super::names::{Spans, NOWHERE};
use super::numbers::number;
use super::texts;

/// Recursion is bounded by this whatever the caller allows; deeper records go the exact road.
const DEPTH_MAX: u32 = 128;

/// What to be sure of.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    pub depth_max: u32,
    pub value_bytes_max: usize,
    /// A record without value is a row of nulls.
    pub nulls_fit: bool,
    /// A field without column whose value tells a type is not plain.
    pub watch: bool,
    /// A whole number written with point or exponent is not plain; with `watch`, nor is any value without column but null.
    pub strict: bool,
}

/// What every record needs, kept between them.
pub struct Reader {
    rules: Rules,
    scratch: Vec<u8>,
    spans: Spans,
    depth_left: u32,
}

impl Reader {
    pub fn new(rules: Rules) -> Self {
        Reader { rules, scratch: Vec::new(), spans: Spans::default(), depth_left: 0 }
    }

    /// Adds the record at `start..stop` of `data` to `rows`, or leaves `rows` as they were. The bytes are UTF-8.
    pub fn record(&mut self, rows: &mut Struct, data: &[u8], start: usize, stop: usize) -> Sure<()> {
        let before = rows.length;
        let read = self.document(rows, data, start, stop);
        if read.is_err() {
            rows.truncate(before);
        }
        read
    }

    /// Adds a record without value.
    pub fn no_record(&mut self, rows: &mut Struct) -> Sure<()> {
        if !self.rules.nulls_fit {
            return Err(Unsure);
        }
        rows.push_null_members();
        rows.close();
        Ok(())
    }

    fn document(&mut self, rows: &mut Struct, data: &[u8], start: usize, stop: usize) -> Sure<()> {
        if stop - start > self.rules.value_bytes_max {
            return Err(Unsure);
        }
        self.depth_left = self.rules.depth_max.min(DEPTH_MAX);
        self.spans.clear();
        let mut cursor = Cursor::new(data, start, stop);
        if cursor.skip_blanks() != b'{' {
            return Err(Unsure);
        }
        self.object(rows, &mut cursor)?;
        cursor.skip_blanks();
        if cursor.at_end() {
            Ok(())
        } else {
            Err(Unsure)
        }
    }

    fn descend(&mut self) -> Sure<()> {
        self.depth_left = self.depth_left.checked_sub(1).ok_or(Unsure)?;
        Ok(())
    }

    /// An object into the columns of a struct; the cursor is at its brace.
    fn object(&mut self, to: &mut Struct, cursor: &mut Cursor) -> Sure<()> {
        self.descend()?;
        to.keys.begin();
        to.object += 1;
        let object = to.object;
        let mut filled = 0;
        let mut previous = None;
        cursor.pos += 1;
        if cursor.skip_blanks() == b'}' {
            cursor.pos += 1;
        } else {
            loop {
                let (id, slot) = to.keys.read(cursor, previous, object, &mut self.scratch)?;
                previous = Some(id);
                colon(cursor)?;
                if slot == NOWHERE {
                    self.nowhere(cursor)?;
                } else {
                    let member = &mut to.members[slot as usize];
                    if member.seen == object {
                        return Err(Unsure);
                    }
                    member.seen = object;
                    self.member(member, cursor)?;
                    filled += 1;
                }
                if !more(cursor, b'}')? {
                    break;
                }
            }
        }
        if filled < to.members.len() {
            fill_missing(to)?;
        }
        to.close();
        self.depth_left += 1;
        Ok(())
    }

    /// A value of a field without column.
    fn nowhere(&mut self, cursor: &mut Cursor) -> Sure<()> {
        let is_null = cursor.peek() == b'n';
        let tells_type = self.skip(cursor)?;
        let news = tells_type || (self.rules.strict && !is_null);
        if news && self.rules.watch {
            return Err(Unsure);
        }
        Ok(())
    }

    #[inline(always)]
    fn member(&mut self, to: &mut Member, cursor: &mut Cursor) -> Sure<()> {
        if cursor.peek() == b'n' {
            cursor.word(b"null")?;
            if to.required {
                return Err(Unsure);
            }
            to.column.push_null();
            return Ok(());
        }
        self.value(&mut to.column, cursor)
    }

    #[inline(always)]
    fn value(&mut self, to: &mut Column, cursor: &mut Cursor) -> Sure<()> {
        match to {
            Column::Text(column) => {
                cursor.expect(b'"')?;
                cursor.text_into(&mut column.bytes)?;
                column.close();
            }
            Column::Long(column) => column.push(number(cursor)?.integer(i64::MIN, i64::MAX, self.rules.strict)?),
            Column::Double(column) => column.push(number(cursor)?.double(cursor)?),
            Column::Timestamp(column, zoned) => {
                column.push(texts::timestamp(text(cursor, &mut self.scratch)?, *zoned)?);
            }
            Column::Int(column) => {
                let value = number(cursor)?.integer(i64::from(i32::MIN), i64::from(i32::MAX), self.rules.strict)?;
                column.push(value as i32);
            }
            Column::Boolean(column) => column.push(u8::from(boolean(cursor)?)),
            Column::Struct(column) => {
                if cursor.peek() != b'{' {
                    return Err(Unsure);
                }
                self.object(column, cursor)?;
            }
            Column::List(ends, item) => {
                let end = self.list(item, ends.last(), cursor)?;
                ends.push(end);
            }
            other => self.rare_value(other, cursor)?,
        }
        Ok(())
    }

    fn rare_value(&mut self, to: &mut Column, cursor: &mut Cursor) -> Sure<()> {
        match to {
            Column::Decimal(column, precision, scale) => column.push(number(cursor)?.decimal(cursor, *precision, *scale)?),
            Column::Float(column) => column.push(number(cursor)?.single(cursor)?),
            Column::Date(column) => column.push(texts::date(text(cursor, &mut self.scratch)?)?),
            Column::Time(column) => column.push(texts::time(text(cursor, &mut self.scratch)?)?),
            Column::Uuid(column) => column.push(texts::uuid(text(cursor, &mut self.scratch)?)?),
            Column::Binary(column) => {
                texts::base64(text(cursor, &mut self.scratch)?, &mut column.bytes)?;
                column.close();
            }
            Column::FixedBinary(bytes, column, size) => {
                let before = bytes.len();
                texts::base64(text(cursor, &mut self.scratch)?, bytes)?;
                if bytes.len() - before != *size {
                    return Err(Unsure);
                }
                column.push(());
            }
            Column::Map(ends, keys, item) => {
                let first = ends.last();
                let end = self.map(keys, item, first, cursor)?;
                ends.push(end);
            }
            _ => return Err(Unsure),
        }
        Ok(())
    }

    /// The elements of an array; returns how many the column of elements has then, from `count` on.
    fn list(&mut self, item: &mut Member, mut count: usize, cursor: &mut Cursor) -> Sure<usize> {
        self.descend()?;
        cursor.expect(b'[')?;
        if cursor.skip_blanks() == b']' {
            cursor.pos += 1;
        } else {
            loop {
                self.member(item, cursor)?;
                count += 1;
                if !more(cursor, b']')? {
                    break;
                }
            }
        }
        self.depth_left += 1;
        Ok(count)
    }

    /// The entries of an object that is a map; returns how many there are then, from `count` on.
    fn map(&mut self, keys: &mut super::columns::Bytes, item: &mut Member, mut count: usize, cursor: &mut Cursor) -> Sure<usize> {
        self.descend()?;
        cursor.expect(b'{')?;
        let mark = self.spans.mark();
        if cursor.skip_blanks() == b'}' {
            cursor.pos += 1;
        } else {
            loop {
                cursor.expect(b'"')?;
                let begin = keys.bytes.len();
                cursor.text_into(&mut keys.bytes)?;
                self.spans.push(mark, &keys.bytes[begin..])?;
                keys.close();
                colon(cursor)?;
                self.member(item, cursor)?;
                count += 1;
                if !more(cursor, b'}')? {
                    break;
                }
            }
        }
        self.spans.end(mark)?;
        self.depth_left += 1;
        Ok(count)
    }

    /// Over a value without column, fully checked. True when it tells a type: it is not null, `[]`, `{}` or made of such only.
    fn skip(&mut self, cursor: &mut Cursor) -> Sure<bool> {
        match cursor.peek() {
            b'"' => {
                cursor.pos += 1;
                cursor.skip_text(&mut self.scratch)?;
            }
            b'{' => return self.skip_object(cursor),
            b'[' => return self.skip_array(cursor),
            b'n' => {
                cursor.word(b"null")?;
                return Ok(false);
            }
            b't' | b'f' => {
                boolean(cursor)?;
            }
            _ => {
                number(cursor)?;
            }
        }
        Ok(true)
    }

    fn skip_array(&mut self, cursor: &mut Cursor) -> Sure<bool> {
        self.descend()?;
        cursor.pos += 1;
        let mut tells_type = false;
        if cursor.skip_blanks() == b']' {
            cursor.pos += 1;
        } else {
            loop {
                tells_type |= self.skip(cursor)?;
                if !more(cursor, b']')? {
                    break;
                }
            }
        }
        self.depth_left += 1;
        Ok(tells_type)
    }

    fn skip_object(&mut self, cursor: &mut Cursor) -> Sure<bool> {
        self.descend()?;
        cursor.pos += 1;
        let mark = self.spans.mark();
        let mut tells_type = false;
        if cursor.skip_blanks() == b'}' {
            cursor.pos += 1;
        } else {
            loop {
                let key = text(cursor, &mut self.scratch)?;
                self.spans.push(mark, key)?;
                colon(cursor)?;
                tells_type |= self.skip(cursor)?;
                if !more(cursor, b'}')? {
                    break;
                }
            }
        }
        self.spans.end(mark)?;
        self.depth_left += 1;
        Ok(tells_type)
    }
}

/// Columns the object did not have are null.
#[inline(never)]
fn fill_missing(to: &mut Struct) -> Sure<()> {
    for member in &mut to.members {
        if member.seen != to.object {
            if member.required {
                return Err(Unsure);
            }
            member.column.push_null();
        }
    }
    Ok(())
}

/// The colon after a key, with the blanks around it.
#[inline(always)]
fn colon(cursor: &mut Cursor) -> Sure<()> {
    cursor.skip_blanks();
    cursor.expect(b':')?;
    cursor.skip_blanks();
    Ok(())
}

/// What comes after a member: a comma (true) or `close` (false), consumed, with the blanks around.
#[inline(always)]
fn more(cursor: &mut Cursor, close: u8) -> Sure<bool> {
    let byte = cursor.skip_blanks();
    cursor.pos += 1;
    if byte == b',' {
        cursor.skip_blanks();
        return Ok(true);
    }
    if byte == close {
        Ok(false)
    } else {
        Err(Unsure)
    }
}

#[inline(always)]
fn text<'s, 'a: 's>(cursor: &mut Cursor<'a>, scratch: &'s mut Vec<u8>) -> Sure<&'s [u8]> {
    cursor.expect(b'"')?;
    cursor.text(scratch)
}

#[inline(always)]
fn boolean(cursor: &mut Cursor) -> Sure<bool> {
    if cursor.begins_with(b"true") {
        cursor.pos += 4;
        return Ok(true);
    }
    cursor.word(b"false")?;
    Ok(false)
}
