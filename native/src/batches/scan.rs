//! The walk over a run: one batch that cannot be read is set aside, the others go on.
use super::codecs::Codecs;
use super::columns::Columns;
use super::frame::{Frame, Unreadable, HEADER_BYTES};
use super::records::{read_records, Wanted};

/// No run is expected to hold more value bytes for each of its own; one that does makes its block grow.
const RATIO_EXPECTED: usize = 32;
/// The last batch of a table may go so far above its limit without making the block grow.
const LAST_BATCH_BYTES: usize = 4 << 20;

/// What one call may use. Totals count what the table has already.
pub struct Limits {
    pub uncompressed_bytes_max: usize,
    pub rows_max: usize,
    pub bytes_max: usize,
    /// Stop before a batch whose header cannot be trusted, instead of setting it aside.
    pub stop_at_damage: bool,
}

/// A batch without readable records.
pub struct Fault {
    pub first_offset: i64,
    pub last_offset: i64,
    pub code: &'static str,
    pub why: String,
    pub position: usize,
    pub length: usize,
}

/// How far one call came: `position` bytes of the run and offsets below `next_offset` are used.
pub struct Walked {
    pub position: usize,
    pub next_offset: Option<u64>,
    pub faults: Vec<Fault>,
    /// Why the bytes at `position` cannot be used.
    pub stopped: Option<String>,
}

/// Appends the records of `run` from `first_offset` on, batch by batch, until it ends or a limit is reached.
pub fn scan(run: &[u8], first_offset: i64, limits: &Limits, codecs: &mut Codecs, columns: &mut Columns) -> Walked {
    columns.reserve_values((limits.bytes_max + LAST_BATCH_BYTES).min(run.len().saturating_mul(RATIO_EXPECTED)));
    let mut walked = Walked { position: 0, next_offset: None, faults: Vec::new(), stopped: None };
    while walked.position < run.len() {
        if columns.len() >= limits.rows_max || columns.bytes() >= limits.bytes_max {
            break;
        }
        let frame = match Frame::read(run, walked.position, walked.next_offset.unwrap_or(0)) {
            Ok(frame) => frame,
            Err(why) => {
                walked.stopped = Some(why);
                break;
            }
        };
        let bytes = &run[frame.position..frame.position + frame.length];
        let before = columns.len();
        if let Err(Unreadable { code, why }) = read_batch(&frame, bytes, first_offset, limits, codecs, columns) {
            columns.cut(before);
            if limits.stop_at_damage && matches!(code, "crc" | "magic") {
                walked.stopped = Some(format!("batch at offset {}: {why}", frame.base_offset));
                break;
            }
            let (first_offset, last_offset) = (frame.base_offset, frame.last_offset());
            let (position, length) = (frame.position, frame.length);
            walked.faults.push(Fault { first_offset, last_offset, code, why, position, length });
        }
        walked.next_offset = Some(frame.last_offset() as u64 + 1);
        walked.position += frame.length;
    }
    walked
}

fn read_batch(
    frame: &Frame,
    bytes: &[u8],
    first_offset: i64,
    limits: &Limits,
    codecs: &mut Codecs,
    columns: &mut Columns,
) -> Result<(), Unreadable> {
    frame.check(bytes)?;
    if frame.is_control() {
        return Ok(());
    }
    let body = &bytes[HEADER_BYTES..];
    let max = limits.uncompressed_bytes_max;
    let data = match frame.codec() {
        0 if body.len() > max => {
            let why = format!("{} bytes of records are more than the limit of {max}", body.len());
            return Err(Unreadable::new("decompress", why));
        }
        0 => body,
        codec @ 1..=4 => codecs.decompress(codec, body, max).map_err(|why| Unreadable::new("decompress", why))?,
        codec => {
            let why = format!("compression codec {codec} is unknown; 0-4 are none, gzip, snappy, lz4, zstd");
            return Err(Unreadable::new("codec", why));
        }
    };
    read_records(frame, data, &Wanted { first_offset, overhead_max: max }, columns)
}
