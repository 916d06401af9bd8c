//! The usual request and nothing else: whole, one topic, one partition, one checked batch. Anything unusual ends the burst, and
//! the broker's general way deals with it from there on.

pub const HEADER_BYTES: usize = 61;
const SIZE_BYTES: usize = 4;
const FRAME_OVERHEAD: usize = 12;
const CRC_FROM: usize = 21;
const FLEXIBLE_FROM: i16 = 9;
const ZSTD: i16 = 4;
const FIRST_WITH_ZSTD: i16 = 7;

/// What the requests of one burst have in common.
#[derive(PartialEq, Eq, Clone, Copy)]
pub struct Common<'a> {
    pub version: i16,
    pub acks: i16,
    pub topic: &'a [u8],
    pub partition: i32,
}

pub struct Request<'a> {
    pub common: Common<'a>,
    pub correlation: i32,
    pub batch: &'a [u8],
    pub stop: usize,
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let found = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(found)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn i16(&mut self) -> Option<i16> {
        Some(i16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn i32(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    /// At most five bytes, as lengths have, and as few as can be.
    fn uvarint(&mut self) -> Option<usize> {
        let mut value = 0usize;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            value |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return (value <= u32::MAX as usize && (byte != 0 || shift == 0)).then_some(value);
            }
        }
        None
    }

    fn expect(&mut self, wanted: &[u8]) -> Option<()> {
        (self.take(wanted.len())? == wanted).then_some(())
    }
}

/// The request at `start`, if it is whole and of the usual kind.
pub fn request(buffer: &[u8], start: usize) -> Option<Request<'_>> {
    let size = usize::try_from(Cursor { bytes: buffer, at: start }.i32()?).ok()?;
    let stop = start.checked_add(SIZE_BYTES)?.checked_add(size)?;
    let mut cursor = Cursor { bytes: buffer.get(..stop)?, at: start + SIZE_BYTES };
    cursor.expect(&[0, 0])?;
    let version = cursor.i16()?;
    if !(3..=11).contains(&version) {
        return None;
    }
    let correlation = cursor.i32()?;
    let client = cursor.i16()?;
    if client < -1 {
        return None;
    }
    std::str::from_utf8(cursor.take(client.max(0) as usize)?).ok()?;
    let (acks, topic, partition, batch) = if version < FLEXIBLE_FROM { plain(&mut cursor)? } else { flexible(&mut cursor)? };
    std::str::from_utf8(topic).ok()?;
    if cursor.at != stop || !(acks == 1 || acks == -1) || !is_usual_batch(batch, version) {
        return None;
    }
    Some(Request { common: Common { version, acks, topic, partition }, correlation, batch, stop })
}

fn plain<'a>(cursor: &mut Cursor<'a>) -> Option<(i16, &'a [u8], i32, &'a [u8])> {
    cursor.expect(&[0xff, 0xff])?; // no transactional id
    let acks = cursor.i16()?;
    cursor.i32()?;
    cursor.expect(&[0, 0, 0, 1])?;
    let name = usize::try_from(cursor.i16()?).ok()?;
    let topic = cursor.take(name)?;
    cursor.expect(&[0, 0, 0, 1])?;
    let partition = cursor.i32()?;
    let length = usize::try_from(cursor.i32()?).ok()?;
    Some((acks, topic, partition, cursor.take(length)?))
}

fn flexible<'a>(cursor: &mut Cursor<'a>) -> Option<(i16, &'a [u8], i32, &'a [u8])> {
    cursor.expect(&[0, 0])?; // no tags in the header, no transactional id
    let acks = cursor.i16()?;
    cursor.i32()?;
    cursor.expect(&[2])?;
    let name = cursor.uvarint()?.checked_sub(1)?;
    let topic = cursor.take(name)?;
    cursor.expect(&[2])?;
    let partition = cursor.i32()?;
    let length = cursor.uvarint()?.checked_sub(1)?;
    let batch = cursor.take(length)?;
    cursor.expect(&[0, 0, 0])?; // no tags of partition, topic and request
    Some((acks, topic, partition, batch))
}

/// One batch, whole, magic 2, a codec this version may send and no other attribute, offsets without gaps, CRC right.
fn is_usual_batch(batch: &[u8], version: i16) -> bool {
    if batch.len() < HEADER_BYTES {
        return false;
    }
    let rest = i32_at(batch, 8);
    let attributes = i16::from_be_bytes([batch[21], batch[22]]);
    let (last, count) = (i32_at(batch, 23), i32_at(batch, 57));
    rest >= 0
        && rest as usize + FRAME_OVERHEAD == batch.len()
        && batch[16] == 2
        && ((0..ZSTD).contains(&attributes) || (attributes == ZSTD && version >= FIRST_WITH_ZSTD))
        && count >= 1
        && last == count - 1
        && crc32c::crc32c(&batch[CRC_FROM..]) == i32_at(batch, 17) as u32
}

pub fn i32_at(batch: &[u8], at: usize) -> i32 {
    i32::from_be_bytes([batch[at], batch[at + 1], batch[at + 2], batch[at + 3]])
}

pub fn i64_at(batch: &[u8], at: usize) -> i64 {
    (i64::from(i32_at(batch, at)) << 32) | i64::from(i32_at(batch, at + 4) as u32)
}
