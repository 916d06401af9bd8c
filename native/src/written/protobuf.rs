//! Protobuf's wire format, in one pass straight into columns. A field that comes again, or beside another of its oneof, is
//! `Unsure`: which one counts is the twin's matter.

use super::cursor::{unzigzag, Cursor};
use super::ops::{Message, Mode, Op, Place, Scalar, Slot};
use super::put;
use super::slice::{spare, Reader};
use crate::json::columns::{Bytes, Column, Struct};
use crate::json::cursor::{Sure, Unsure};

const LEN: u8 = 2;
const VARINT: u8 = 0;
const NANOS: i128 = 1_000_000_000;
const MICROS_LOW: i128 = -62_135_596_800_000_000;
const MICROS_HIGH: i128 = 253_402_300_799_999_999;

impl<'p> Reader<'p> {
    pub fn message(&mut self, message: &Message, to: &mut Struct<'p>, data: &[u8], depth: i64) -> Sure<()> {
        if depth < 0 {
            return Err(Unsure);
        }
        self.messages += 1;
        let me = self.messages;
        let mut at = Cursor::new(data);
        while at.left() > 0 {
            let tag = at.varint()?;
            let number = message.find(tag >> 3).ok_or(Unsure)?;
            let slot = &message.slots[number];
            self.stamp(message, number, slot, me)?;
            let wire = (tag & 7) as u8;
            match slot.place {
                Place::Member(member) => self.slot(slot, wire, &mut to.members[member].column, &mut at, depth)?,
                Place::Spare(spared) => spare(self, spared, |reader, column| reader.slot(slot, wire, column, &mut at, depth))?,
                Place::Nowhere => return Err(Unsure),
            }
        }
        self.finish(message, to, me)
    }

    /// Notes that a field came. `me` numbers the messages.
    #[inline(always)]
    fn stamp(&mut self, message: &Message, number: usize, slot: &Slot, me: u64) -> Sure<()> {
        let seen = std::mem::replace(&mut self.stamps[message.stamps + number], me);
        if seen == me && slot.mode == Mode::One {
            return Err(Unsure);
        }
        if let Some(rivals) = slot.rivals {
            if std::mem::replace(&mut self.stamps[rivals], me) == me {
                return Err(Unsure);
            }
        }
        Ok(())
    }

    /// Closes lists and maps, and gives what did not come its value.
    #[inline(always)]
    fn finish(&mut self, message: &Message, to: &mut Struct<'p>, me: u64) -> Sure<()> {
        for (number, slot) in message.slots.iter().enumerate() {
            let seen = self.stamps[message.stamps + number] == me;
            if slot.required && !seen {
                return Err(Unsure);
            }
            let Place::Member(member) = slot.place else { continue };
            let column = &mut to.members[member].column;
            match slot.mode {
                Mode::One if seen => {}
                Mode::One if slot.defaults => default(&slot.op, column)?,
                Mode::One => column.push_null(),
                Mode::Many => close_list(column)?,
                Mode::Pairs => close_map(column)?,
            }
        }
        for member in &message.absent {
            to.members[*member].column.push_null();
        }
        to.close();
        Ok(())
    }

    #[inline(always)]
    fn slot(&mut self, slot: &Slot, wire: u8, to: &mut Column<'p>, at: &mut Cursor, depth: i64) -> Sure<()> {
        match slot.mode {
            Mode::One if wire == slot.wire => self.field(&slot.op, to, at, depth),
            Mode::Many => {
                let Column::List(_, item) = to else { return Err(Unsure) };
                if wire == slot.wire {
                    return self.field(&slot.op, &mut item.column, at, depth);
                }
                if wire != LEN {
                    return Err(Unsure);
                }
                let mut packed = Cursor::new(sized(at)?);
                while packed.left() > 0 {
                    self.field(&slot.op, &mut item.column, &mut packed, depth)?;
                }
                Ok(())
            }
            Mode::Pairs if wire == slot.wire => {
                let Column::Map(_, keys, item) = to else { return Err(Unsure) };
                self.pair(slot, keys, &mut item.column, sized(at)?, depth - 1)
            }
            _ => Err(Unsure),
        }
    }

    /// One value, its tag read.
    #[inline(always)]
    fn field(&mut self, op: &Op, to: &mut Column<'p>, at: &mut Cursor, depth: i64) -> Sure<()> {
        match op {
            Op::Proto(scalar) => put_scalar(*scalar, to, at),
            Op::ProtoEnum(symbols) => {
                let number = at.varint()? as i64;
                match symbols.find(number) {
                    Some(text) => put::symbol(to, text),
                    None => put::symbol(to, &number.to_string()),
                }
            }
            Op::Message(message) => match to {
                Column::Struct(column) => self.message(message, column, sized(at)?, depth - 1),
                _ => Err(Unsure),
            },
            Op::ProtoTime => time(to, sized(at)?, depth - 1),
            Op::Wrapper(inner) => wrapped(inner, to, sized(at)?, depth - 1),
            _ => Err(Unsure),
        }
    }

    /// One entry of a map: a message of key and value.
    fn pair(&mut self, slot: &Slot, keys: &mut Bytes, to: &mut Column<'p>, data: &[u8], depth: i64) -> Sure<()> {
        let Some((key, key_wire)) = &slot.key else { return Err(Unsure) };
        if depth < 0 {
            return Err(Unsure);
        }
        let value_wire = wire_of(&slot.op);
        let (mut has_key, mut has_value) = (false, false);
        let mut at = Cursor::new(data);
        while at.left() > 0 {
            let tag = at.varint()?;
            if tag == u64::from(1 << 3 | *key_wire) && !has_key {
                has_key = true;
                key_text(key, keys, Some(&mut at))?;
            } else if tag == u64::from(2 << 3 | value_wire) && !has_value {
                has_value = true;
                self.field(&slot.op, to, &mut at, depth)?;
            } else {
                return Err(Unsure);
            }
        }
        if !has_key {
            key_text(key, keys, None)?;
        }
        if !has_value {
            match slot.op {
                Op::Message(_) | Op::ProtoTime | Op::Wrapper(_) => return Err(Unsure),
                _ => default(&slot.op, to)?,
            }
        }
        Ok(())
    }
}

fn wire_of(op: &Op) -> u8 {
    match op {
        Op::Proto(scalar) => match scalar {
            Scalar::Double | Scalar::Fixed64 | Scalar::Sfixed64 => 1,
            Scalar::Float | Scalar::Fixed32 | Scalar::Sfixed32 => 5,
            Scalar::Text | Scalar::Bytes => LEN,
            _ => VARINT,
        },
        Op::ProtoEnum(_) => VARINT,
        _ => LEN,
    }
}

#[inline(always)]
fn sized<'a>(at: &mut Cursor<'a>) -> Sure<&'a [u8]> {
    let size = usize::try_from(at.varint()?).map_err(|_| Unsure)?;
    at.take(size)
}

fn close_list(column: &mut Column) -> Sure<()> {
    let Column::List(ends, item) = column else { return Err(Unsure) };
    ends.push(item.column.len());
    Ok(())
}

fn close_map(column: &mut Column) -> Sure<()> {
    let Column::Map(ends, keys, _) = column else { return Err(Unsure) };
    keys.distinct_from(ends.last())?;
    ends.push(keys.len());
    Ok(())
}

/// What stands for a scalar that did not come.
fn default(op: &Op, to: &mut Column) -> Sure<()> {
    match op {
        Op::Proto(Scalar::Text) => put::text(to, b""),
        Op::Proto(Scalar::Bytes) => put::bytes(to, b""),
        Op::Proto(Scalar::Bool) => put::boolean(to, 0),
        Op::Proto(Scalar::Float | Scalar::Double) => put::double(to, 0.0),
        Op::Proto(_) => put::integer(to, 0),
        Op::ProtoEnum(symbols) => put::symbol(to, symbols.find(0).unwrap_or("0")),
        _ => Err(Unsure),
    }
}

#[inline(always)]
fn whole(scalar: Scalar, at: &mut Cursor) -> Sure<i64> {
    let narrow = |number: i64| i32::try_from(number).map(i64::from).map_err(|_| Unsure);
    match scalar {
        Scalar::Int64 => Ok(at.varint()? as i64),
        Scalar::Sint64 => Ok(unzigzag(at.varint()?)),
        Scalar::Int32 => narrow(at.varint()? as i64),
        Scalar::Sint32 => narrow(unzigzag(at.varint()?)),
        Scalar::Uint32 => u32::try_from(at.varint()?).map(i64::from).map_err(|_| Unsure),
        Scalar::Fixed32 => Ok(i64::from(u32::from_le_bytes(at.array()?))),
        Scalar::Sfixed32 => Ok(i64::from(i32::from_le_bytes(at.array()?))),
        Scalar::Sfixed64 => Ok(i64::from_le_bytes(at.array()?)),
        _ => Err(Unsure),
    }
}

fn unsigned(scalar: Scalar, at: &mut Cursor) -> Sure<u64> {
    if scalar == Scalar::Fixed64 {
        Ok(u64::from_le_bytes(at.array()?))
    } else {
        at.varint()
    }
}

#[inline(always)]
fn put_scalar(scalar: Scalar, to: &mut Column, at: &mut Cursor) -> Sure<()> {
    match scalar {
        Scalar::Text => put::text(to, sized(at)?),
        Scalar::Bytes => put::bytes(to, sized(at)?),
        Scalar::Double => put::double(to, f64::from_le_bytes(at.array()?)),
        Scalar::Float => put::single(to, f32::from_le_bytes(at.array()?)),
        Scalar::Bool => put::boolean(to, at.varint()?),
        Scalar::Uint64 | Scalar::Fixed64 => put::decimal(to, i128::from(unsigned(scalar, at)?), 0),
        _ => put::integer(to, whole(scalar, at)?),
    }
}

/// A map's key as text; without bytes, the key type's default.
fn key_text(op: &Op, keys: &mut Bytes, at: Option<&mut Cursor>) -> Sure<()> {
    let Op::Proto(scalar) = op else { return Err(Unsure) };
    match (scalar, at) {
        (Scalar::Text, None) => {}
        (Scalar::Text, Some(at)) => {
            let text = sized(at)?;
            if !put::is_utf8(text) {
                return Err(Unsure);
            }
            keys.bytes.extend_from_slice(text);
        }
        (Scalar::Bool, at) => {
            let value = at.map_or(Ok(0), Cursor::varint)?;
            let text = match value {
                0 => "false",
                1 => "true",
                _ => return Err(Unsure),
            };
            keys.bytes.extend_from_slice(text.as_bytes());
        }
        (Scalar::Uint64 | Scalar::Fixed64, at) => {
            let value = at.map_or(Ok(0), |at| unsigned(*scalar, at))?;
            keys.bytes.extend_from_slice(value.to_string().as_bytes());
        }
        (_, at) => {
            let value = at.map_or(Ok(0), |at| whole(*scalar, at))?;
            keys.bytes.extend_from_slice(value.to_string().as_bytes());
        }
    }
    if keys.bytes.len() > put::BYTES_MAX {
        return Err(Unsure);
    }
    keys.close();
    Ok(())
}

/// google.protobuf.Timestamp: seconds and nanoseconds.
fn time(to: &mut Column, data: &[u8], depth: i64) -> Sure<()> {
    if depth < 0 {
        return Err(Unsure);
    }
    let (mut seconds, mut nanos) = (None, None);
    let mut at = Cursor::new(data);
    while at.left() > 0 {
        match at.varint()? {
            0x08 if seconds.is_none() => seconds = Some(whole(Scalar::Int64, &mut at)?),
            0x10 if nanos.is_none() => nanos = Some(whole(Scalar::Int32, &mut at)?),
            _ => return Err(Unsure),
        }
    }
    let all = i128::from(seconds.unwrap_or(0)) * NANOS + i128::from(nanos.unwrap_or(0));
    match to {
        Column::Long(column) => column.push(i64::try_from(all).map_err(|_| Unsure)?),
        Column::Timestamp(column, true) => {
            let micros = all / 1000;
            if all % 1000 != 0 || !(MICROS_LOW..=MICROS_HIGH).contains(&micros) {
                return Err(Unsure);
            }
            column.push(micros as i64);
        }
        _ => return Err(Unsure),
    }
    Ok(())
}

/// A scalar in a message of its own.
fn wrapped(inner: &Op, to: &mut Column, data: &[u8], depth: i64) -> Sure<()> {
    let Op::Proto(scalar) = inner else { return Err(Unsure) };
    if depth < 0 {
        return Err(Unsure);
    }
    if data.is_empty() {
        return default(inner, to);
    }
    let mut at = Cursor::new(data);
    if at.varint()? != u64::from(1 << 3 | wire_of(inner)) {
        return Err(Unsure);
    }
    put_scalar(*scalar, to, &mut at)?;
    if at.left() > 0 {
        return Err(Unsure);
    }
    Ok(())
}
