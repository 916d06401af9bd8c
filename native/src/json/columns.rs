//! Columns while they grow: plain vectors that can be cut back to any row, and made into Arrow data without a copy.

use std::collections::HashSet;

use arrow_buffer::{ArrowNativeType, Buffer, MutableBuffer, NullBuffer, BooleanBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{DataType, Field, TimeUnit};

use super::cursor::{Sure, Unsure};
use super::names::{Keys, Names};
use super::plan::Plan;

/// How much more is to come, by what has come: a vector that grows by doubling would be copied at each step, and would take
/// three times its size at the last.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub rows: usize,
    pub of: usize,
    /// No vector of values or bytes is longer than the records have bytes, whatever the first rows say.
    pub most: usize,
}

impl Scale {
    fn room<T>(self, values: &mut Vec<T>) {
        let expected = values.len().saturating_mul(self.of) / self.rows.max(1);
        let wanted = (expected + expected / 16).min(self.most);
        if wanted > values.capacity() {
            values.reserve_exact(wanted - values.len());
        }
    }
}

/// Which values are there. Empty as long as no null came.
#[derive(Default)]
pub struct Valid {
    flags: Vec<u8>,
    has_nulls: bool,
}

impl Valid {
    #[inline(always)]
    fn push(&mut self) {
        if self.has_nulls {
            self.flags.push(1);
        }
    }

    #[inline(always)]
    fn push_null(&mut self, length: usize) {
        if !self.has_nulls {
            self.flags.resize(length, 1);
            self.has_nulls = true;
        }
        self.flags.push(0);
    }

    fn truncate(&mut self, length: usize) {
        self.flags.truncate(length);
    }

    fn finish(&self, length: usize) -> Option<NullBuffer> {
        if !self.has_nulls {
            return None;
        }
        let nulls = NullBuffer::new(BooleanBuffer::new(packed(&self.flags), 0, length));
        (nulls.null_count() > 0).then_some(nulls)
    }
}

/// One bit per flag.
fn packed(flags: &[u8]) -> Buffer {
    let mut bits = MutableBuffer::with_capacity(flags.len().div_ceil(8));
    for chunk in flags.chunks(8) {
        bits.push(chunk.iter().enumerate().fold(0u8, |byte, (at, flag)| byte | flag << at));
    }
    bits.into()
}

/// Values of one size.
pub struct Fixed<T> {
    pub values: Vec<T>,
    valid: Valid,
}

impl<T: Copy + Default> Fixed<T> {
    fn new(rows: usize) -> Self {
        Fixed { values: Vec::with_capacity(rows), valid: Valid::default() }
    }

    #[inline(always)]
    pub fn push(&mut self, value: T) {
        self.values.push(value);
        self.valid.push();
    }

    #[inline(always)]
    fn push_null(&mut self) {
        self.valid.push_null(self.values.len());
        self.values.push(T::default());
    }

    fn truncate(&mut self, length: usize) {
        self.values.truncate(length);
        self.valid.truncate(length);
    }
}

impl<T: ArrowNativeType> Fixed<T> {
    fn finish(self, to: &DataType) -> ArrayData {
        let (length, nulls) = (self.values.len(), self.valid.finish(self.values.len()));
        build(ArrayData::builder(to.clone()).len(length).nulls(nulls).add_buffer(Buffer::from_vec(shrunk(self.values))))
    }
}

/// Values of any size, as ends in one run of bytes.
pub struct Bytes {
    pub bytes: Vec<u8>,
    ends: Ends,
}

impl Bytes {
    fn new(rows: usize) -> Self {
        Bytes { bytes: Vec::with_capacity(rows), ends: Ends::new(rows) }
    }

    /// What was put at the end of `bytes` since is one value.
    #[inline(always)]
    pub fn close(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    fn at(&self, number: usize) -> &[u8] {
        &self.bytes[self.ends.ends[number] as usize..self.ends.ends[number + 1] as usize]
    }

    /// Sure when no value from the one numbered `begin` on comes twice.
    pub fn distinct_from(&self, begin: usize) -> Sure<()> {
        let (count, few) = (self.len(), 8);
        let twice = if count - begin <= few {
            (begin..count).any(|number| (begin..number).any(|before| self.at(before) == self.at(number)))
        } else {
            let mut known = HashSet::with_capacity(count - begin);
            !(begin..count).all(|number| known.insert(self.at(number)))
        };
        if twice {
            return Err(Unsure);
        }
        Ok(())
    }

    fn reserve(&mut self, scale: Scale) {
        scale.room(&mut self.bytes);
        scale.room(&mut self.ends.ends);
    }

    fn truncate(&mut self, length: usize) {
        let end = self.ends.truncate(length);
        self.bytes.truncate(end);
    }

    fn finish(self, to: &DataType) -> ArrayData {
        let (length, nulls) = (self.ends.len(), self.ends.valid.finish(self.ends.len()));
        let wide = matches!(to, DataType::LargeUtf8 | DataType::LargeBinary);
        let builder = ArrayData::builder(to.clone()).len(length).nulls(nulls);
        build(builder.add_buffer(self.ends.buffer(wide)).add_buffer(Buffer::from_vec(shrunk(self.bytes))))
    }
}

/// Where the values of a list, map or text end. A slice is below 1 GiB, so 32 bits are enough for every end.
pub struct Ends {
    ends: Vec<i32>,
    valid: Valid,
}

impl Ends {
    fn new(rows: usize) -> Self {
        let mut ends = Vec::with_capacity(rows + 1);
        ends.push(0);
        Ends { ends, valid: Valid::default() }
    }

    fn len(&self) -> usize {
        self.ends.len() - 1
    }

    /// Where the values end so far.
    pub fn last(&self) -> usize {
        self.ends[self.ends.len() - 1] as usize
    }

    #[inline(always)]
    pub fn push(&mut self, end: usize) {
        self.ends.push(end as i32);
        self.valid.push();
    }

    #[inline(always)]
    fn push_null(&mut self) {
        self.valid.push_null(self.len());
        self.ends.push(self.ends[self.ends.len() - 1]);
    }

    /// Returns where the values end now.
    fn truncate(&mut self, length: usize) -> usize {
        self.ends.truncate(length + 1);
        self.valid.truncate(length);
        self.last()
    }

    fn buffer(self, wide: bool) -> Buffer {
        if wide {
            Buffer::from_vec(self.ends.into_iter().map(i64::from).collect::<Vec<_>>())
        } else {
            Buffer::from_vec(shrunk(self.ends))
        }
    }
}

pub struct Struct<'p> {
    pub keys: Keys<'p>,
    pub members: Vec<Member<'p>>,
    pub length: usize,
    /// Numbers the objects read, from 1.
    pub object: u32,
    valid: Valid,
}

/// A place for values: a column, a field, an element or a map's value.
pub struct Member<'p> {
    pub column: Column<'p>,
    pub required: bool,
    /// The object that filled it last.
    pub seen: u32,
}

pub enum Column<'p> {
    Boolean(Fixed<u8>),
    Int(Fixed<i32>),
    Long(Fixed<i64>),
    Float(Fixed<f32>),
    Double(Fixed<f64>),
    Decimal(Fixed<i128>, u8, i32),
    Date(Fixed<i32>),
    Time(Fixed<i64>),
    Timestamp(Fixed<i64>, bool),
    Text(Bytes),
    Binary(Bytes),
    Uuid(Fixed<[u8; 16]>),
    FixedBinary(Vec<u8>, Fixed<()>, usize),
    List(Ends, Box<Member<'p>>),
    Map(Ends, Bytes, Box<Member<'p>>),
    Struct(Box<Struct<'p>>),
}

impl<'p> Column<'p> {
    /// A column without values, with room for `rows`.
    pub fn new(plan: &'p Plan, rows: usize) -> Self {
        match plan {
            Plan::Boolean => Column::Boolean(Fixed::new(rows)),
            Plan::Int => Column::Int(Fixed::new(rows)),
            Plan::Long => Column::Long(Fixed::new(rows)),
            Plan::Float => Column::Float(Fixed::new(rows)),
            Plan::Double => Column::Double(Fixed::new(rows)),
            Plan::Decimal(precision, scale) => Column::Decimal(Fixed::new(rows), *precision, *scale),
            Plan::Date => Column::Date(Fixed::new(rows)),
            Plan::Time => Column::Time(Fixed::new(rows)),
            Plan::Timestamp(zoned) => Column::Timestamp(Fixed::new(rows), *zoned),
            Plan::Text => Column::Text(Bytes::new(rows)),
            Plan::Binary => Column::Binary(Bytes::new(rows)),
            Plan::Uuid => Column::Uuid(Fixed::new(rows)),
            Plan::FixedBinary(size) => Column::FixedBinary(Vec::new(), Fixed::new(rows), *size),
            Plan::List(member) => Column::List(Ends::new(rows), Box::new(Member::new(member, rows))),
            Plan::Map(member) => Column::Map(Ends::new(rows), Bytes::new(rows), Box::new(Member::new(member, rows))),
            Plan::Struct(names, members) => Column::Struct(Box::new(Struct::new(names, members, rows))),
        }
    }

    pub fn push_null(&mut self) {
        match self {
            Column::Boolean(column) => column.push_null(),
            Column::Int(column) | Column::Date(column) => column.push_null(),
            Column::Long(column) | Column::Time(column) | Column::Timestamp(column, _) => column.push_null(),
            Column::Float(column) => column.push_null(),
            Column::Double(column) => column.push_null(),
            Column::Decimal(column, _, _) => column.push_null(),
            Column::Text(column) | Column::Binary(column) => column.ends.push_null(),
            Column::Uuid(column) => column.push_null(),
            Column::FixedBinary(bytes, column, size) => {
                bytes.resize(bytes.len() + *size, 0);
                column.push_null();
            }
            Column::List(ends, _) | Column::Map(ends, _, _) => ends.push_null(),
            Column::Struct(column) => column.push_null(),
        }
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        match self {
            Column::Boolean(column) => column.values.len(),
            Column::Int(column) | Column::Date(column) => column.values.len(),
            Column::Long(column) | Column::Time(column) | Column::Timestamp(column, _) => column.values.len(),
            Column::Float(column) => column.values.len(),
            Column::Double(column) => column.values.len(),
            Column::Decimal(column, _, _) => column.values.len(),
            Column::Text(column) | Column::Binary(column) => column.len(),
            Column::Uuid(column) => column.values.len(),
            Column::FixedBinary(_, column, _) => column.values.len(),
            Column::List(ends, _) | Column::Map(ends, _, _) => ends.len(),
            Column::Struct(column) => column.length,
        }
    }

    /// Forgets all after the first `length` values.
    pub fn truncate(&mut self, length: usize) {
        match self {
            Column::Boolean(column) => column.truncate(length),
            Column::Int(column) | Column::Date(column) => column.truncate(length),
            Column::Long(column) | Column::Time(column) | Column::Timestamp(column, _) => column.truncate(length),
            Column::Float(column) => column.truncate(length),
            Column::Double(column) => column.truncate(length),
            Column::Decimal(column, _, _) => column.truncate(length),
            Column::Text(column) | Column::Binary(column) => column.truncate(length),
            Column::Uuid(column) => column.truncate(length),
            Column::FixedBinary(bytes, column, size) => {
                bytes.truncate(length * *size);
                column.truncate(length);
            }
            Column::List(ends, item) => {
                let end = ends.truncate(length);
                item.column.truncate(end);
            }
            Column::Map(ends, keys, item) => {
                let end = ends.truncate(length);
                keys.truncate(end);
                item.column.truncate(end);
            }
            Column::Struct(column) => column.truncate(length),
        }
    }

    /// Makes room for `scale` times what is there.
    pub fn reserve(&mut self, scale: Scale) {
        match self {
            Column::Boolean(column) => scale.room(&mut column.values),
            Column::Int(column) | Column::Date(column) => scale.room(&mut column.values),
            Column::Long(column) | Column::Time(column) | Column::Timestamp(column, _) => scale.room(&mut column.values),
            Column::Float(column) => scale.room(&mut column.values),
            Column::Double(column) => scale.room(&mut column.values),
            Column::Decimal(column, _, _) => scale.room(&mut column.values),
            Column::Text(column) | Column::Binary(column) => column.reserve(scale),
            Column::Uuid(column) => scale.room(&mut column.values),
            Column::FixedBinary(bytes, _, _) => scale.room(bytes),
            Column::List(ends, item) => {
                scale.room(&mut ends.ends);
                item.column.reserve(scale);
            }
            Column::Map(ends, keys, item) => {
                scale.room(&mut ends.ends);
                keys.reserve(scale);
                item.column.reserve(scale);
            }
            Column::Struct(column) => column.reserve(scale),
        }
    }

    /// The values as Arrow data of type `to`, which is the type the plan was made from.
    pub fn finish(self, to: &DataType) -> ArrayData {
        match self {
            Column::Boolean(column) => {
                let (length, nulls) = (column.values.len(), column.valid.finish(column.values.len()));
                build(ArrayData::builder(to.clone()).len(length).nulls(nulls).add_buffer(packed(&column.values)))
            }
            Column::Int(column) | Column::Date(column) => column.finish(to),
            Column::Long(column) | Column::Time(column) | Column::Timestamp(column, _) => column.finish(to),
            Column::Float(column) => column.finish(to),
            Column::Double(column) => column.finish(to),
            Column::Decimal(column, _, _) => column.finish(to),
            Column::Text(column) | Column::Binary(column) => column.finish(to),
            Column::Uuid(column) => {
                let nulls = column.valid.finish(column.values.len());
                let length = column.values.len();
                build(ArrayData::builder(to.clone()).len(length).nulls(nulls).add_buffer(Buffer::from_vec(column.values.concat())))
            }
            Column::FixedBinary(bytes, column, _) => {
                let (length, nulls) = (column.values.len(), column.valid.finish(column.values.len()));
                build(ArrayData::builder(to.clone()).len(length).nulls(nulls).add_buffer(Buffer::from_vec(bytes)))
            }
            Column::List(ends, item) => {
                let (length, nulls) = (ends.len(), ends.valid.finish(ends.len()));
                let (field, wide) = match to {
                    DataType::LargeList(field) => (field, true),
                    DataType::List(field) => (field, false),
                    other => unreachable!("a list plan of {other}"),
                };
                let child = item.column.finish(field.data_type());
                build(ArrayData::builder(to.clone()).len(length).nulls(nulls).add_buffer(ends.buffer(wide)).add_child_data(child))
            }
            Column::Map(ends, keys, item) => finish_map(ends, keys, *item, to),
            Column::Struct(column) => column.finish(to),
        }
    }
}

fn finish_map(ends: Ends, keys: Bytes, item: Member, to: &DataType) -> ArrayData {
    let DataType::Map(entries, _) = to else { unreachable!("a map plan of {to}") };
    let DataType::Struct(pair) = entries.data_type() else { unreachable!("a map of {entries}") };
    let (length, nulls) = (ends.len(), ends.valid.finish(ends.len()));
    let count = keys.ends.len();
    let children = vec![keys.finish(pair[0].data_type()), item.column.finish(pair[1].data_type())];
    let inside = build(ArrayData::builder(entries.data_type().clone()).len(count).child_data(children));
    build(ArrayData::builder(to.clone()).len(length).nulls(nulls).add_buffer(ends.buffer(false)).add_child_data(inside))
}

impl<'p> Member<'p> {
    fn new(plan: &'p super::plan::Member, rows: usize) -> Self {
        Member { column: Column::new(&plan.plan, rows), required: plan.required, seen: 0 }
    }
}

impl<'p> Struct<'p> {
    pub fn new(names: &'p Names, members: &'p [super::plan::Member], rows: usize) -> Self {
        let members = members.iter().map(|member| Member::new(member, rows)).collect();
        Struct { keys: Keys::new(names), members, length: 0, object: 0, valid: Valid::default() }
    }

    /// The members have one value more: it is an object.
    #[inline(always)]
    pub fn close(&mut self) {
        self.length += 1;
        self.valid.push();
    }

    fn push_null(&mut self) {
        self.push_null_members();
        self.valid.push_null(self.length);
        self.length += 1;
    }

    pub fn push_null_members(&mut self) {
        for member in &mut self.members {
            member.column.push_null();
        }
    }

    pub fn reserve(&mut self, scale: Scale) {
        for member in &mut self.members {
            member.column.reserve(scale);
        }
    }

    pub fn truncate(&mut self, length: usize) {
        for member in &mut self.members {
            member.column.truncate(length);
        }
        self.length = length;
        self.valid.truncate(length);
    }

    pub fn finish(self, to: &DataType) -> ArrayData {
        let DataType::Struct(fields) = to else { unreachable!("a struct plan of {to}") };
        let nulls = self.valid.finish(self.length);
        let children = self.members.into_iter().zip(fields).map(|(member, field)| member.column.finish(field.data_type()));
        let children = children.collect::<Vec<_>>();
        build(ArrayData::builder(to.clone()).len(self.length).nulls(nulls).child_data(children))
    }
}

/// A vector grows by doubling; the half it may not need goes back.
fn shrunk<T>(mut values: Vec<T>) -> Vec<T> {
    if values.capacity() - values.len() > values.len() / 4 {
        values.shrink_to_fit();
    }
    values
}

fn build(builder: ArrayDataBuilder) -> ArrayData {
    // SAFETY: what a full validation would read again holds by construction: every column has one value per row of its parent
    // (a record is whole or cut back), ends ascend and stay within their bytes or child, and text was checked to be UTF-8
    // before it was parsed and is only cut at ASCII bytes. The tests validate fully.
    unsafe { builder.build_unchecked() }
}

/// The types a plan can be made from; see `Plan::of`.
pub fn plain_plan(to: &DataType) -> Option<Plan> {
    Some(match to {
        DataType::Boolean => Plan::Boolean,
        DataType::Int32 => Plan::Int,
        DataType::Int64 => Plan::Long,
        DataType::Float32 => Plan::Float,
        DataType::Float64 => Plan::Double,
        DataType::Decimal128(precision, scale) if *scale >= 0 => Plan::Decimal(*precision, i32::from(*scale)),
        DataType::Date32 => Plan::Date,
        DataType::Time64(TimeUnit::Microsecond) => Plan::Time,
        DataType::Timestamp(TimeUnit::Microsecond, zone) => Plan::Timestamp(zone.is_some()),
        DataType::Utf8 | DataType::LargeUtf8 => Plan::Text,
        DataType::Binary | DataType::LargeBinary => Plan::Binary,
        _ => return None,
    })
}

/// Whether a field carries UUIDs: Arrow's canonical extension over 16 bytes.
pub fn is_uuid(field: &Field) -> bool {
    field.metadata().get("ARROW:extension:name").is_some_and(|name| name == "arrow.uuid")
        && *field.data_type() == DataType::FixedSizeBinary(16)
}
