//! The five codecs, each with a ceiling on what it may produce, into one buffer that is used again for every batch.
//!
//! A declared size is never believed. The buffer begins small and grows by what was really produced, up to one byte more
//! than the ceiling: whoever fills that byte is refused.
use std::io::Read;

use flate2::bufread::MultiGzDecoder;
use lz4_sys::{
    LZ4FDecompressionContext, LZ4F_createDecompressionContext, LZ4F_decompress, LZ4F_freeDecompressionContext, LZ4F_getErrorName,
    LZ4F_isError, LZ4F_resetDecompressionContext, LZ4F_VERSION,
};

const FIRST_GUESS_BYTES: usize = 64 * 1024;
const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\x00";
const XERIAL_HEADER_BYTES: usize = 16;
/// A snappy copy element is 2-3 bytes for at most 64 bytes of output: no honest block declares more than this ratio.
const SNAPPY_RATIO_MAX: usize = 64;

/// What decompression needs from batch to batch.
#[derive(Default)]
pub struct Codecs {
    out: Vec<u8>,
    lz4: Option<Lz4>,
    zstd: Option<zstd_safe::DCtx<'static>>,
}

impl Codecs {
    /// The uncompressed bytes of one batch with codec 1-4, valid until the next call; the error says why there are none.
    pub fn decompress(&mut self, codec: u8, data: &[u8], bytes_max: usize) -> Result<&[u8], String> {
        let room = FIRST_GUESS_BYTES.max(data.len().saturating_mul(4)).min(bytes_max + 1);
        if self.out.len() < room {
            self.out.resize(room, 0);
        }
        let made = match codec {
            1 => self.gzip(data, bytes_max),
            2 => self.snappy(data, bytes_max),
            3 => self.lz4(data, bytes_max),
            _ => self.zstd(data, bytes_max),
        }?;
        self.out.get(..made).ok_or_else(|| "the codec counted wrong".to_owned())
    }

    /// More room behind `made` bytes, or why there is none.
    fn grow(&mut self, made: usize, bytes_max: usize) -> Result<(), String> {
        if fits(made, bytes_max)? == self.out.len() {
            let room = (made * 2).max(FIRST_GUESS_BYTES).min(bytes_max + 1);
            self.out.resize(room, 0);
        }
        Ok(())
    }

    fn gzip(&mut self, data: &[u8], bytes_max: usize) -> Result<usize, String> {
        let mut decoder = MultiGzDecoder::new(data);
        let mut made = 0;
        loop {
            self.grow(made, bytes_max)?;
            match decoder.read(&mut self.out[made..]) {
                Ok(0) => return Ok(made),
                Ok(count) => made += count,
                Err(error) => return Err(format!("gzip data is damaged: {error}")),
            }
        }
    }

    fn zstd(&mut self, data: &[u8], bytes_max: usize) -> Result<usize, String> {
        let mut context = self.zstd.take().unwrap_or_else(zstd_safe::DCtx::create);
        let made = self.zstd_stream(&mut context, data, bytes_max);
        if made.is_ok() {
            self.zstd = Some(context); // one that failed holds half a frame: it is thrown away
        }
        made
    }

    fn zstd_stream(&mut self, context: &mut zstd_safe::DCtx<'static>, data: &[u8], bytes_max: usize) -> Result<usize, String> {
        let mut source = zstd_safe::InBuffer::around(data);
        let mut made = 0;
        loop {
            self.grow(made, bytes_max)?;
            let mut sink = zstd_safe::OutBuffer::around_pos(&mut self.out[..], made);
            let before = (source.pos, made);
            let left = context
                .decompress_stream(&mut sink, &mut source)
                .map_err(|code| format!("zstd data is damaged: {}", zstd_safe::get_error_name(code)))?;
            made = sink.pos();
            if left == 0 && source.pos == data.len() {
                return fits(made, bytes_max);
            }
            if (source.pos, made) == before && made < self.out.len() {
                return Err("zstd data ends inside a frame".to_owned());
            }
        }
    }

    fn lz4(&mut self, data: &[u8], bytes_max: usize) -> Result<usize, String> {
        let mut lz4 = match self.lz4.take() {
            Some(lz4) => lz4,
            None => Lz4::new()?,
        };
        lz4.reset();
        let (mut used, mut made) = (0, 0);
        let found = loop {
            self.grow(made, bytes_max)?;
            let (taken, given, left) = match lz4.step(&data[used..], &mut self.out[made..]) {
                Ok(step) => step,
                Err(why) => break Err(why),
            };
            used += taken;
            made += given;
            if left == 0 && used == data.len() {
                break fits(made, bytes_max);
            }
            if taken == 0 && given == 0 && made < self.out.len() {
                break Err("lz4 data ends inside a frame".to_owned());
            }
        };
        self.lz4 = Some(lz4);
        found
    }

    fn snappy(&mut self, data: &[u8], bytes_max: usize) -> Result<usize, String> {
        if !data.starts_with(XERIAL_MAGIC) {
            return self.snappy_block(data, 0, bytes_max);
        }
        let (mut position, mut made) = (0, 0);
        while position < data.len() {
            if data[position..].starts_with(XERIAL_MAGIC) {
                position += XERIAL_HEADER_BYTES; // streams may follow each other
                continue;
            }
            let block = data[position..].split_first_chunk::<4>().and_then(|(length, rest)| {
                let length = u32::from_be_bytes(*length) as usize;
                if length == 0 {
                    None
                } else {
                    rest.get(..length)
                }
            });
            let Some(block) = block else {
                return Err(format!("snappy block at byte {position} does not fit {} bytes of data", data.len()));
            };
            made = self.snappy_block(block, made, bytes_max)?;
            position += 4 + block.len();
        }
        if position != data.len() {
            return Err("snappy stream ends inside its header".to_owned());
        }
        Ok(made)
    }

    /// Decodes one raw block behind `made` bytes; the new count.
    fn snappy_block(&mut self, block: &[u8], made: usize, bytes_max: usize) -> Result<usize, String> {
        let damaged = |error| format!("snappy data is damaged: {error}");
        let declared = snap::raw::decompress_len(block).map_err(damaged)?;
        if declared > bytes_max - made || declared > SNAPPY_RATIO_MAX * block.len() {
            return Err(format!("snappy block of {} bytes declares {declared} bytes; the limit is {bytes_max}", block.len()));
        }
        let end = made + declared;
        if self.out.len() < end {
            self.out.resize(end.max(made * 2).min(bytes_max + 1), 0);
        }
        let produced = snap::raw::Decoder::new().decompress(block, &mut self.out[made..end]).map_err(damaged)?;
        if produced != declared {
            return Err(format!("snappy block declares {declared} bytes but holds {produced}"));
        }
        Ok(end)
    }
}

/// `made`, unless it is above the limit.
fn fits(made: usize, bytes_max: usize) -> Result<usize, String> {
    if made > bytes_max {
        return Err(format!("the data is larger than {bytes_max} bytes"));
    }
    Ok(made)
}

/// A context of the LZ4 frame library; it keeps its block buffers from frame to frame.
struct Lz4(LZ4FDecompressionContext);

// SAFETY: the context is a heap object without thread affinity, reached only through `&mut Lz4`.
unsafe impl Send for Lz4 {}
// SAFETY: `&Lz4` gives no access to the context.
unsafe impl Sync for Lz4 {}

impl Lz4 {
    fn new() -> Result<Self, String> {
        let mut context = LZ4FDecompressionContext(std::ptr::null_mut());
        // SAFETY: `context` is a valid place for the new handle.
        let code = unsafe { LZ4F_createDecompressionContext(&mut context, LZ4F_VERSION) };
        // SAFETY: any code may be asked for.
        if unsafe { LZ4F_isError(code) } != 0 || context.0.is_null() {
            return Err("lz4 has no memory for a context".to_owned());
        }
        Ok(Self(context))
    }

    /// Forgets what an earlier batch, damaged perhaps, has left.
    fn reset(&mut self) {
        // SAFETY: the context lives as long as `self`.
        unsafe { LZ4F_resetDecompressionContext(LZ4FDecompressionContext(self.0 .0)) };
    }

    /// One step: bytes taken, bytes given, and 0 when a frame has ended.
    fn step(&mut self, source: &[u8], sink: &mut [u8]) -> Result<(usize, usize, usize), String> {
        let (mut taken, mut given) = (source.len(), sink.len());
        // SAFETY: both pointers are valid for the lengths beside them, the library writes back how much it used of each,
        // and with default options it keeps no pointer into either after the call.
        let code = unsafe {
            LZ4F_decompress(
                LZ4FDecompressionContext(self.0 .0),
                sink.as_mut_ptr(),
                &mut given,
                source.as_ptr(),
                &mut taken,
                std::ptr::null(),
            )
        };
        // SAFETY: any code may be asked for.
        if unsafe { LZ4F_isError(code) } != 0 {
            // SAFETY: the name of a code is a static C string.
            let name = unsafe { std::ffi::CStr::from_ptr(LZ4F_getErrorName(code)) };
            return Err(format!("lz4 data is damaged: {}", name.to_string_lossy()));
        }
        Ok((taken, given, code))
    }
}

impl Drop for Lz4 {
    fn drop(&mut self) {
        // SAFETY: made by `LZ4F_createDecompressionContext`, freed once.
        unsafe { LZ4F_freeDecompressionContext(LZ4FDecompressionContext(self.0 .0)) };
    }
}
