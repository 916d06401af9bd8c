//! Frames of v2 record batches: what is needed to walk from one to the next, and the header's own checks.

pub const HEADER_BYTES: usize = 61;
const CRC_START: usize = 21;

/// Why one batch is given up: a code and words for a person.
#[derive(Debug)]
pub struct Unreadable {
    pub code: &'static str,
    pub why: String,
}

impl Unreadable {
    pub fn new(code: &'static str, why: impl Into<String>) -> Self {
        Self { code, why: why.into() }
    }
}

/// The header of one batch and where its frame lies in its run.
pub struct Frame {
    pub position: usize,
    pub length: usize,
    pub base_offset: i64,
    pub magic: i8,
    pub crc: u32,
    pub attributes: i16,
    pub last_offset_delta: i32,
    pub base_timestamp_ms: i64,
    pub max_timestamp_ms: i64,
    pub record_count: i32,
}

impl Frame {
    pub fn last_offset(&self) -> i64 {
        self.base_offset + i64::from(self.last_offset_delta) // `read` has seen that it fits
    }

    pub fn codec(&self) -> u8 {
        (self.attributes & 0x07) as u8
    }

    pub fn is_control(&self) -> bool {
        self.attributes & 0x20 != 0
    }

    /// Every record's timestamp, when the log gave it (`LogAppendTime`).
    pub fn append_time_ms(&self) -> Option<i64> {
        (self.attributes & 0x08 != 0).then_some(self.max_timestamp_ms)
    }

    /// The frame at `position`; `expected` is the lowest base offset it may have. The error says why nothing can be walked.
    pub fn read(run: &[u8], position: usize, expected: u64) -> Result<Self, String> {
        let left = run.len() - position;
        let Some(head) = run[position..].first_chunk::<HEADER_BYTES>() else {
            return Err(format!("{left} bytes are too few for a batch header"));
        };
        let base_offset = i64::from_be_bytes(bytes(head, 0));
        let length = i64::from(i32::from_be_bytes(bytes(head, 8))) + 12;
        let last = i32::from_be_bytes(bytes(head, 23));
        let fits = length >= HEADER_BYTES as i64 && length as u64 <= left as u64;
        if !fits || last < 0 || base_offset < 0 || base_offset > i64::MAX - i64::from(last) {
            return Err(format!("a batch of {length} bytes (of {left}), base offset {base_offset}, last offset delta {last} cannot be"));
        }
        if (base_offset as u64) < expected {
            return Err(format!("base offset {base_offset} is below {expected}; was the run patched?"));
        }
        Ok(Self {
            position,
            length: length as usize,
            base_offset,
            magic: head[16] as i8,
            crc: u32::from_be_bytes(bytes(head, 17)),
            attributes: i16::from_be_bytes(bytes(head, 21)),
            last_offset_delta: last,
            base_timestamp_ms: i64::from_be_bytes(bytes(head, 27)),
            max_timestamp_ms: i64::from_be_bytes(bytes(head, 35)),
            record_count: i32::from_be_bytes(bytes(head, 57)),
        })
    }

    /// Checks that the bytes are those the producer sealed, and that the counts can be.
    pub fn check(&self, frame: &[u8]) -> Result<(), Unreadable> {
        if self.magic != 2 {
            return Err(Unreadable::new("magic", format!("magic {} is not 2", self.magic)));
        }
        if crc32c::crc32c(&frame[CRC_START..]) != self.crc {
            return Err(Unreadable::new("crc", format!("CRC-32C is not {:08x} as the header says", self.crc)));
        }
        if self.record_count < 0 || i64::from(self.record_count) > i64::from(self.last_offset_delta) + 1 {
            let (count, last) = (self.record_count, self.last_offset_delta);
            return Err(Unreadable::new("counts", format!("{count} records cannot have last offset delta {last}")));
        }
        Ok(())
    }
}

fn bytes<const N: usize>(head: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&head[at..at + N]);
    out
}
