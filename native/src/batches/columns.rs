//! Columns in the making. A batch that turns out unreadable half way is cut off again.
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, Int64Array, ListArray, StringArray, StructArray};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields};

/// A column of byte strings, some of them null.
pub struct Blobs {
    ends: Vec<i32>,
    data: Vec<u8>,
    valid: BooleanBufferBuilder,
}

impl Blobs {
    fn new() -> Self {
        Self { ends: vec![0], data: Vec::new(), valid: BooleanBufferBuilder::new(0) }
    }

    /// The caller keeps all bytes of one table below 2 GiB, so ends fit 32 bits.
    #[inline(always)]
    pub fn push(&mut self, value: Option<&[u8]>) {
        self.valid.append(value.is_some());
        self.data.extend_from_slice(value.unwrap_or_default());
        self.ends.push(self.data.len() as i32);
    }

    fn len(&self) -> usize {
        self.ends.len() - 1
    }

    fn cut(&mut self, length: usize) {
        self.ends.truncate(length + 1);
        self.data.truncate(self.ends[length] as usize);
        self.valid.truncate(length);
    }

    fn take(&mut self) -> (OffsetBuffer<i32>, Buffer, Option<NullBuffer>) {
        let full = std::mem::replace(self, Self::new());
        let Blobs { ends, data, mut valid } = full;
        let nulls = NullBuffer::new(valid.finish());
        let nulls = (nulls.null_count() > 0).then_some(nulls);
        (OffsetBuffer::new(ScalarBuffer::from(ends)), Buffer::from_vec(data), nulls)
    }
}

/// The records of any number of runs, column by column.
pub struct Columns {
    offsets: Vec<i64>,
    timestamps_ms: Vec<i64>,
    pub keys: Blobs,
    pub values: Blobs,
    header_ends: Vec<i32>,
    pub header_keys: Blobs,
    pub header_values: Blobs,
}

impl Columns {
    pub fn new() -> Self {
        Self {
            offsets: Vec::new(),
            timestamps_ms: Vec::new(),
            keys: Blobs::new(),
            values: Blobs::new(),
            header_ends: vec![0],
            header_keys: Blobs::new(),
            header_values: Blobs::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Bytes of Arrow memory in use, validity bits left out.
    pub fn bytes(&self) -> usize {
        let blobs = [&self.keys, &self.values, &self.header_keys, &self.header_values];
        self.len() * 20 + blobs.iter().map(|blob| blob.len() * 4 + blob.data.len()).sum::<usize>()
    }

    /// Room for `rows` records of together `bytes` bytes: counts that were checked against real data, never a header's word.
    pub fn reserve(&mut self, rows: usize, bytes: usize) {
        self.offsets.reserve(rows);
        self.timestamps_ms.reserve(rows);
        self.header_ends.reserve(rows);
        self.keys.ends.reserve(rows);
        self.values.ends.reserve(rows);
        self.values.data.reserve(bytes);
    }

    /// One block for all values to come, so that none is ever copied to a larger one. What is not used is address space only.
    pub fn reserve_values(&mut self, bytes: usize) {
        if self.values.data.capacity() == 0 {
            self.values.data.reserve_exact(bytes);
        }
    }

    /// Ends one record whose key, value and headers were pushed.
    #[inline(always)]
    pub fn end_record(&mut self, offset: i64, timestamp_ms: i64) {
        self.offsets.push(offset);
        self.timestamps_ms.push(timestamp_ms);
        self.header_ends.push(self.header_keys.len() as i32);
    }

    /// Keeps the first `rows` records, whole ones.
    pub fn cut(&mut self, rows: usize) {
        self.offsets.truncate(rows);
        self.timestamps_ms.truncate(rows);
        self.keys.cut(rows);
        self.values.cut(rows);
        self.header_ends.truncate(rows + 1);
        let headers = self.header_ends[rows] as usize;
        self.header_keys.cut(headers);
        self.header_values.cut(headers);
    }

    /// All columns as one struct array; the columns are empty afterwards.
    pub fn take(&mut self) -> StructArray {
        let offsets = Int64Array::from(std::mem::take(&mut self.offsets));
        let times = Int64Array::from(std::mem::take(&mut self.timestamps_ms));
        let ends = std::mem::replace(&mut self.header_ends, vec![0]);
        let (key_ends, keys, _) = self.header_keys.take();
        let (value_ends, values, value_nulls) = self.header_values.take();
        // SAFETY: every header key passed `str::from_utf8` by itself, so all cuts are on character borders.
        let keys: ArrayRef = Arc::new(unsafe { StringArray::new_unchecked(key_ends, keys, None) });
        let values: ArrayRef = Arc::new(BinaryArray::new(value_ends, values, value_nulls));
        let header = Fields::from(vec![Field::new("key", DataType::Utf8, true), Field::new("value", DataType::Binary, true)]);
        let structs = StructArray::new(header.clone(), vec![keys, values], None);
        let element = Arc::new(Field::new("element", DataType::Struct(header), true));
        let headers = ListArray::new(element, OffsetBuffer::new(ScalarBuffer::from(ends)), Arc::new(structs), None);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("offset", Arc::new(offsets)),
            ("timestamp_ms", Arc::new(times)),
            ("key", Arc::new(binary(self.keys.take()))),
            ("value", Arc::new(binary(self.values.take()))),
            ("headers", Arc::new(headers)),
        ];
        let fields: Fields = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
        StructArray::new(fields, columns.into_iter().map(|(_, array)| array).collect(), None)
    }
}

fn binary((ends, data, nulls): (OffsetBuffer<i32>, Buffer, Option<NullBuffer>)) -> BinaryArray {
    BinaryArray::new(ends, data, nulls)
}
