//! Just enough of the Kafka protocol: requests as bytes, answers checked in place.

pub struct Reader<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}

type Read<T> = Result<T, String>;

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0 }
    }

    pub fn take(&mut self, count: usize) -> Read<&'a [u8]> {
        let end = self.at.checked_add(count).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or_else(|| format!("an answer of {} bytes ends inside a field at byte {}", self.bytes.len(), self.at))?;
        let found = &self.bytes[self.at..end];
        self.at = end;
        Ok(found)
    }

    pub fn i16(&mut self) -> Read<i16> {
        Ok(i16::from_be_bytes(self.take(2)?.try_into().unwrap()))
    }

    pub fn i32(&mut self) -> Read<i32> {
        Ok(i32::from_be_bytes(self.take(4)?.try_into().unwrap()))
    }

    pub fn i64(&mut self) -> Read<i64> {
        Ok(i64::from_be_bytes(self.take(8)?.try_into().unwrap()))
    }

    pub fn string(&mut self) -> Read<String> {
        let count = self.i16()?;
        Ok(String::from_utf8_lossy(self.take(count.max(0) as usize)?).into_owned())
    }
}

pub struct Frame {
    pub bytes: Vec<u8>,
}

impl Frame {
    /// Size, header v1, then the body by the calls that follow; `done` writes the size.
    pub fn new(key: i16, version: i16, correlation: i32) -> Self {
        let mut frame = Frame { bytes: vec![0; 4] };
        frame.i16(key).i16(version).i32(correlation).string("frazil-load");
        frame
    }

    pub fn i8(&mut self, value: i8) -> &mut Self {
        self.bytes.push(value as u8);
        self
    }

    pub fn i16(&mut self, value: i16) -> &mut Self {
        self.bytes.extend(value.to_be_bytes());
        self
    }

    pub fn i32(&mut self, value: i32) -> &mut Self {
        self.bytes.extend(value.to_be_bytes());
        self
    }

    pub fn i64(&mut self, value: i64) -> &mut Self {
        self.bytes.extend(value.to_be_bytes());
        self
    }

    pub fn string(&mut self, value: &str) -> &mut Self {
        self.i16(value.len() as i16);
        self.bytes.extend(value.as_bytes());
        self
    }

    pub fn raw(&mut self, value: &[u8]) -> &mut Self {
        self.bytes.extend(value);
        self
    }

    pub fn uvarint(&mut self, mut value: usize) -> &mut Self {
        while value > 0x7f {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
        self
    }

    pub fn done(mut self) -> Vec<u8> {
        let size = (self.bytes.len() - 4) as i32;
        self.bytes[..4].copy_from_slice(&size.to_be_bytes());
        self.bytes
    }
}

fn varint(out: &mut Vec<u8>, value: i64) {
    let mut left = ((value << 1) ^ (value >> 63)) as u64;
    while left > 0x7f {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

pub const CRC_AT: usize = 17;
pub const CRC_FROM: usize = 21;
pub const SEQUENCE_AT: usize = 53;
pub const HEADER_BYTES: usize = 61;

/// One batch (magic 2) of `count` records without keys, sequence 0; the caller stamps sequence and CRC.
pub fn batch(count: usize, value_bytes: usize, producer: (i64, i16), timestamp_ms: i64) -> Vec<u8> {
    let mut records = Vec::new();
    let value: Vec<u8> = (0..value_bytes).map(|at| b"frazil moves bytes "[at % 19]).collect();
    for number in 0..count {
        let mut record = vec![0u8];
        varint(&mut record, 0);
        varint(&mut record, number as i64);
        varint(&mut record, -1);
        varint(&mut record, value_bytes as i64);
        record.extend(&value);
        varint(&mut record, 0);
        varint(&mut records, record.len() as i64);
        records.extend(record);
    }
    let mut out = Vec::with_capacity(HEADER_BYTES + records.len());
    out.extend(0i64.to_be_bytes());
    out.extend(((HEADER_BYTES - 12 + records.len()) as i32).to_be_bytes());
    out.extend((-1i32).to_be_bytes());
    out.push(2);
    out.extend([0; 4]);
    out.extend(0i16.to_be_bytes());
    out.extend((count as i32 - 1).to_be_bytes());
    out.extend(timestamp_ms.to_be_bytes());
    out.extend(timestamp_ms.to_be_bytes());
    out.extend(producer.0.to_be_bytes());
    out.extend(producer.1.to_be_bytes());
    out.extend(0i32.to_be_bytes());
    out.extend((count as i32).to_be_bytes());
    out.extend(records);
    out
}

/// A produce request (v9 flexible, or v7) with one batch; where the batch begins in the frame.
pub fn produce(version: i16, topic: &str, partition: i32, batch: &[u8]) -> (Vec<u8>, usize) {
    let mut frame = Frame::new(0, version, 0);
    if version >= 9 {
        frame.raw(&[0, 0]).i16(-1).i32(30_000); // header tags; no transactional id
        frame.uvarint(2).uvarint(topic.len() + 1).raw(topic.as_bytes());
        frame.uvarint(2).i32(partition).uvarint(batch.len() + 1);
    } else {
        frame.i16(-1).i16(-1).i32(30_000);
        frame.i32(1).string(topic).i32(1).i32(partition).i32(batch.len() as i32);
    }
    let at = frame.bytes.len();
    frame.raw(batch);
    if version >= 9 {
        frame.raw(&[0, 0, 0]);
    }
    (frame.done(), at)
}

/// Error code and base offset of a produce answer for one partition; `bytes` begin with the correlation id.
pub fn produced(version: i16, topic: &str, bytes: &[u8]) -> Read<(i32, i16, i64)> {
    let mut reader = Reader::new(bytes);
    let correlation = reader.i32()?;
    if version >= 9 {
        reader.take(1 + 1 + 1 + topic.len() + 1)?;
    } else {
        reader.take(4 + 2 + topic.len() + 4)?;
    }
    reader.i32()?;
    Ok((correlation, reader.i16()?, reader.i64()?))
}

/// A fetch request v4 for one partition.
pub fn fetch(correlation: i32, topic: &str, partition: i32, offset: i64, bytes_max: i32) -> Vec<u8> {
    let mut frame = Frame::new(1, 4, correlation);
    frame.i32(-1).i32(500).i32(1).i32(bytes_max).i8(0);
    frame.i32(1).string(topic).i32(1).i32(partition).i64(offset).i32(bytes_max);
    frame.done()
}

pub struct Fetched {
    pub error: i16,
    pub high_watermark: i64,
    pub batches: usize,
    pub records: u64,
    pub next: i64,
    pub bytes: usize,
}

/// Counts the records of a fetch answer by batch headers. `expected` is the offset asked for; a jump is an error.
pub fn fetched(bytes: &[u8], expected: i64, check_crc: bool) -> Read<Fetched> {
    let mut reader = Reader::new(bytes);
    reader.take(8)?;
    if reader.i32()? != 1 {
        return Err("a fetch answer without its topic".into());
    }
    reader.string()?;
    reader.i32()?;
    reader.i32()?;
    let error = reader.i16()?;
    let high_watermark = reader.i64()?;
    reader.i64()?;
    let aborted = reader.i32()?;
    reader.take(aborted.max(0) as usize * 16)?;
    let size = reader.i32()?.max(0) as usize;
    let data = reader.take(size)?;
    let mut found = Fetched { error, high_watermark, batches: 0, records: 0, next: expected, bytes: size };
    let mut at = 0;
    while data.len() - at >= HEADER_BYTES {
        let head = &data[at..at + HEADER_BYTES];
        let base = i64::from_be_bytes(head[..8].try_into().unwrap());
        let length = i32::from_be_bytes(head[8..12].try_into().unwrap()).max(0) as usize + 12;
        if length < HEADER_BYTES || length > data.len() - at {
            break; // a batch that is cut at the end of the answer
        }
        let last = i32::from_be_bytes(head[23..27].try_into().unwrap()) as i64;
        let count = i32::from_be_bytes(head[57..61].try_into().unwrap());
        if base > found.next || base + last < found.next {
            return Err(format!("expected offset {}, got a batch of offsets {base} to {}", found.next, base + last));
        }
        if check_crc {
            let crc = u32::from_be_bytes(head[CRC_AT..CRC_FROM].try_into().unwrap());
            if crc32c::crc32c(&data[at + CRC_FROM..at + length]) != crc {
                return Err(format!("the batch at offset {base} fails its CRC"));
            }
        }
        found.batches += 1;
        found.records += count as u64;
        found.next = base + last + 1;
        at += length;
    }
    Ok(found)
}
