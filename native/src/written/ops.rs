//! How a writer's type is read into the columns of a table: made once by Python (`schemas/avro/program.py`,
//! `schemas/protobuf/program.py`), run for each record. `Op::Twin` stands for whatever only the twin decides.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::enums::Symbols;

const DEPTH_MAX: usize = 100;
pub const NO_SLOT: u16 = u16::MAX;
const TABLE: usize = 128;

pub enum Op {
    /// Only the twin knows.
    Twin,
    /// No bytes, no value.
    Null,
    Boolean,
    /// A zigzag number; `true`: it must have 32 bits.
    Integer(bool),
    Single,
    Double,
    Bytes,
    Text,
    Uuid,
    Date,
    Fixed(usize),
    Enum(Symbols),
    /// 32 bits or not; multiply, divide, and the bounds of the microseconds.
    Micros {
        narrow: bool,
        times: i64,
        parts: i64,
        low: i64,
        high: i64,
    },
    /// Digits after the point, and the bytes when their number is fixed.
    Decimal {
        size: Option<usize>,
        scale: u32,
    },
    Array(Box<Op>),
    Map(Box<Op>),
    Union(Vec<Op>),
    /// A union without column, of which only this branch will do: null.
    OnlyBranch(i64),
    Record(Record),
    Proto(Scalar),
    ProtoEnum(Symbols),
    /// google.protobuf.Timestamp.
    ProtoTime,
    Wrapper(Box<Op>),
    Message(Message),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    Int32,
    Sint32,
    Sfixed32,
    Uint32,
    Fixed32,
    Int64,
    Sint64,
    Sfixed64,
    Uint64,
    Fixed64,
    Bool,
    Float,
    Double,
    Text,
    Bytes,
}

/// Where a field's value goes.
#[derive(Debug, Clone, Copy)]
pub enum Place {
    Member(usize),
    /// A column that nobody keeps: the value is only read.
    Spare(usize),
    Nowhere,
}

pub struct Record {
    pub fields: Vec<(Place, Op)>,
    /// Members that the type has no field for.
    pub absent: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    One,
    Many,
    Pairs,
}

pub struct Slot {
    pub number: u64,
    pub wire: u8,
    pub place: Place,
    pub mode: Mode,
    pub op: Op,
    /// Without a value: the default; else null.
    pub defaults: bool,
    pub required: bool,
    /// The number of its oneof within the program, behind the slots'.
    pub rivals: Option<usize>,
    /// The type of a map's keys and its wire type.
    pub key: Option<(Op, u8)>,
}

pub struct Message {
    pub slots: Vec<Slot>,
    pub absent: Vec<usize>,
    /// Where its slots' stamps are.
    pub stamps: usize,
    table: Vec<u16>,
    others: Vec<(u64, u16)>,
}

impl Message {
    #[inline(always)]
    pub fn find(&self, number: u64) -> Option<usize> {
        if number < TABLE as u64 {
            let found = *self.table.get(number as usize)?;
            return (found != NO_SLOT).then_some(found as usize);
        }
        let at = self.others.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(self.others[at].1 as usize)
    }
}

/// Reads the nested tuples that Python makes.
#[derive(Default)]
pub struct Build {
    /// Stamps given out so far.
    pub stamps: usize,
}

type Given<'py> = Bound<'py, PyAny>;

fn bad(why: &str) -> PyErr {
    PyValueError::new_err(format!("no program: {why}"))
}

impl Build {
    pub fn op(&mut self, given: &Given, depth: usize) -> PyResult<Op> {
        if depth > DEPTH_MAX {
            return Err(bad("too deep"));
        }
        let parts = given.downcast::<PyTuple>()?;
        let item = |at: usize| parts.get_item(at);
        let word: String = item(0)?.extract()?;
        Ok(match word.as_str() {
            "twin" => Op::Twin,
            "null" => Op::Null,
            "boolean" => Op::Boolean,
            "integer" => Op::Integer(item(1)?.extract()?),
            "float" => Op::Single,
            "double" => Op::Double,
            "bytes" => Op::Bytes,
            "string" => Op::Text,
            "uuid" => Op::Uuid,
            "date" => Op::Date,
            "fixed" => Op::Fixed(item(1)?.extract()?),
            "enum" => Op::Enum(symbols(&item(1)?)?),
            "micros" => {
                let (narrow, times, parts, low, high) = item(1)?.extract()?;
                Op::Micros { narrow, times, parts, low, high }
            }
            "decimal" => Op::Decimal { size: item(1)?.extract()?, scale: item(2)?.extract()? },
            "array" => Op::Array(Box::new(self.op(&item(1)?, depth + 1)?)),
            "map" => Op::Map(Box::new(self.op(&item(1)?, depth + 1)?)),
            "union" => Op::Union(self.each(&item(1)?, |build, one| build.op(one, depth + 1))?),
            "only-branch" => Op::OnlyBranch(item(1)?.extract()?),
            "record" => Op::Record(self.record(&item(1)?, &item(2)?, depth)?),
            "proto-enum" => Op::ProtoEnum(symbols(&item(1)?)?),
            "proto-time" => Op::ProtoTime,
            "wrapper" => Op::Wrapper(Box::new(self.op(&item(1)?, depth + 1)?)),
            "message" => Op::Message(self.message(&item(1)?, &item(2)?, depth)?),
            "proto" => Op::Proto(scalar(&item(1)?.extract::<String>()?)?),
            other => return Err(bad(other)),
        })
    }

    fn each<T>(&mut self, given: &Given, mut make: impl FnMut(&mut Self, &Given) -> PyResult<T>) -> PyResult<Vec<T>> {
        given.try_iter()?.map(|one| make(self, &one?)).collect()
    }

    fn record(&mut self, fields: &Given, absent: &Given, depth: usize) -> PyResult<Record> {
        let fields = self.each(fields, |build, one| {
            let pair = one.downcast::<PyTuple>()?;
            Ok((place(&pair.get_item(0)?)?, build.op(&pair.get_item(1)?, depth + 1)?))
        })?;
        Ok(Record { fields, absent: absent.extract()? })
    }

    /// Slots are (number, wire, place, mode, op, defaults, required, oneof or None, (key, key's wire) or None).
    fn message(&mut self, slots: &Given, absent: &Given, depth: usize) -> PyResult<Message> {
        let mut slots = self.each(slots, |build, one| build.slot(one.downcast::<PyTuple>()?, depth))?;
        let stamps = self.stamps;
        let rivals = slots.iter().filter_map(|slot| slot.rivals).max().map_or(0, |most| most + 1);
        let count = slots.len();
        if count >= NO_SLOT as usize || rivals > count {
            return Err(bad("too many fields"));
        }
        for slot in &mut slots {
            slot.rivals = slot.rivals.map(|rivals| stamps + count + rivals);
        }
        self.stamps += count + rivals;
        let (mut table, mut others) = (vec![NO_SLOT; TABLE], Vec::new());
        for (at, slot) in slots.iter().enumerate() {
            match usize::try_from(slot.number) {
                Ok(number) if number < TABLE => table[number] = at as u16,
                _ => others.push((slot.number, at as u16)),
            }
        }
        others.sort_unstable();
        Ok(Message { slots, absent: absent.extract()?, stamps, table, others })
    }

    fn slot(&mut self, given: &Bound<PyTuple>, depth: usize) -> PyResult<Slot> {
        let item = |at: usize| given.get_item(at);
        let mode = match item(3)?.extract::<String>()?.as_str() {
            "one" => Mode::One,
            "many" => Mode::Many,
            "pairs" => Mode::Pairs,
            other => return Err(bad(other)),
        };
        let key = item(8)?;
        let key = if key.is_none() {
            None
        } else {
            let pair = key.downcast::<PyTuple>()?;
            Some((self.op(&pair.get_item(0)?, depth + 1)?, pair.get_item(1)?.extract()?))
        };
        if key.is_some() != (mode == Mode::Pairs) {
            return Err(bad("a key"));
        }
        Ok(Slot {
            number: item(0)?.extract()?,
            wire: item(1)?.extract()?,
            place: place(&item(2)?)?,
            mode,
            op: self.op(&item(4)?, depth + 1)?,
            defaults: item(5)?.extract()?,
            required: item(6)?.extract()?,
            rivals: item(7)?.extract()?,
            key,
        })
    }
}

/// None: nowhere; a number from 0: a member; below: -1 is the first spare column.
fn place(given: &Given) -> PyResult<Place> {
    let number: Option<i64> = given.extract()?;
    Ok(match number {
        None => Place::Nowhere,
        Some(at) if at >= 0 => Place::Member(at as usize),
        Some(at) => Place::Spare((-1 - at) as usize),
    })
}

fn symbols(given: &Given) -> PyResult<Symbols> {
    Ok(Symbols::new(given.extract()?))
}

fn scalar(word: &str) -> PyResult<Scalar> {
    Ok(match word {
        "int32" => Scalar::Int32,
        "sint32" => Scalar::Sint32,
        "sfixed32" => Scalar::Sfixed32,
        "uint32" => Scalar::Uint32,
        "fixed32" => Scalar::Fixed32,
        "int64" => Scalar::Int64,
        "sint64" => Scalar::Sint64,
        "sfixed64" => Scalar::Sfixed64,
        "uint64" => Scalar::Uint64,
        "fixed64" => Scalar::Fixed64,
        "bool" => Scalar::Bool,
        "float" => Scalar::Float,
        "double" => Scalar::Double,
        "string" => Scalar::Text,
        "bytes" => Scalar::Bytes,
        other => return Err(bad(other)),
    })
}
