//! Reading one record byte by byte. Every index is checked against the record's end; a wrong byte makes the record `Unsure`.

/// The record is not plainly good: the exact road of the caller decides about it. Says nothing more on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsure;

pub type Sure<T> = Result<T, Unsure>;

/// A place in one record. `data` may go on beyond `end` (the next records), which only lets wide loads read there.
pub struct Cursor<'a> {
    data: &'a [u8],
    pub pos: usize,
    end: usize,
}

impl<'a> Cursor<'a> {
    /// `end` is held to the length of `data`, so `pos < end` makes `data[pos]` safe.
    pub fn new(data: &'a [u8], start: usize, end: usize) -> Self {
        Cursor { data, pos: start, end: end.min(data.len()) }
    }

    /// The byte here; 0, which no JSON token begins with, at the end.
    #[inline(always)]
    pub fn peek(&self) -> u8 {
        if self.pos < self.end {
            self.data[self.pos]
        } else {
            0
        }
    }

    #[inline(always)]
    pub fn at_end(&self) -> bool {
        self.pos >= self.end
    }

    #[inline(always)]
    pub fn slice(&self, from: usize, to: usize) -> &'a [u8] {
        &self.data[from..to]
    }

    /// Over blanks to the next byte, which is returned and not consumed.
    #[inline(always)]
    pub fn skip_blanks(&mut self) -> u8 {
        let byte = self.peek();
        if byte > b' ' {
            return byte;
        }
        self.skip_blanks_slowly()
    }

    fn skip_blanks_slowly(&mut self) -> u8 {
        while !self.at_end() && matches!(self.data[self.pos], b' ' | b'\t' | b'\n' | b'\r') {
            self.pos += 1;
        }
        self.peek()
    }

    #[inline(always)]
    pub fn expect(&mut self, byte: u8) -> Sure<()> {
        if self.peek() != byte {
            return Err(Unsure);
        }
        self.pos += 1;
        Ok(())
    }

    /// `word` here, consumed.
    #[inline(always)]
    pub fn word(&mut self, word: &[u8]) -> Sure<()> {
        if !self.begins_with(word) {
            return Err(Unsure);
        }
        self.pos += word.len();
        Ok(())
    }

    #[inline(always)]
    pub fn begins_with(&self, word: &[u8]) -> bool {
        let stop = self.pos + word.len();
        stop <= self.end && same_bytes(&self.data[self.pos..stop], word)
    }

    /// Over the plain characters of a text: to the next quote, backslash or control character at or after `pos`.
    #[inline(always)]
    fn plain_end(&self) -> usize {
        let mut at = self.pos;
        while at + LANES <= self.data.len() {
            let found = special(&self.data[at..at + LANES]);
            if found < LANES {
                return at + found;
            }
            at += LANES;
        }
        while at < self.end && !is_special(self.data[at]) {
            at += 1;
        }
        at
    }

    /// A text whose opening quote has been consumed. Without escapes it is lent from the record; else decoded into `scratch`.
    #[inline(always)]
    pub fn text<'s>(&mut self, scratch: &'s mut Vec<u8>) -> Sure<&'s [u8]>
    where
        'a: 's,
    {
        let start = self.pos;
        let stop = self.plain_end();
        if stop < self.end && self.data[stop] == b'"' {
            self.pos = stop + 1;
            return Ok(&self.data[start..stop]);
        }
        scratch.clear();
        self.text_into(scratch)?;
        Ok(scratch)
    }

    /// The same, appended to `out`.
    #[inline(always)]
    pub fn text_into(&mut self, out: &mut Vec<u8>) -> Sure<()> {
        loop {
            let stop = self.plain_end();
            if stop >= self.end {
                return Err(Unsure);
            }
            out.extend_from_slice(&self.data[self.pos..stop]);
            self.pos = stop + 1;
            match self.data[stop] {
                b'"' => return Ok(()),
                b'\\' => self.escape(out)?,
                _ => return Err(Unsure),
            }
        }
    }

    /// Over a text whose opening quote has been consumed; checks its escapes. True when it has any.
    pub fn skip_text(&mut self, scratch: &mut Vec<u8>) -> Sure<bool> {
        let start = self.pos;
        let stop = self.plain_end();
        if stop < self.end && self.data[stop] == b'"' {
            self.pos = stop + 1;
            return Ok(false);
        }
        self.pos = start;
        scratch.clear();
        self.text_into(scratch)?;
        Ok(true)
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Sure<()> {
        let byte = self.peek();
        self.pos += 1;
        out.push(match byte {
            b'"' | b'\\' | b'/' => byte,
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 8,
            b'f' => 12,
            b'u' => return self.unicode_escape(out),
            _ => return Err(Unsure),
        });
        Ok(())
    }

    fn unicode_escape(&mut self, out: &mut Vec<u8>) -> Sure<()> {
        let first = self.four_hex()?;
        let code = match first {
            0xD800..=0xDBFF => {
                self.word(b"\\u")?;
                let second = self.four_hex()?;
                if !(0xDC00..=0xDFFF).contains(&second) {
                    return Err(Unsure);
                }
                0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
            }
            _ => first,
        };
        // Half of a surrogate pair is no char.
        let letter = char::from_u32(code).ok_or(Unsure)?;
        out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn four_hex(&mut self) -> Sure<u32> {
        if self.pos + 4 > self.end {
            return Err(Unsure);
        }
        let mut code = 0;
        for &byte in &self.data[self.pos..self.pos + 4] {
            code = code << 4 | (byte as char).to_digit(16).ok_or(Unsure)?;
        }
        self.pos += 4;
        Ok(code)
    }
}

/// Equality of short slices without a call.
#[inline(always)]
fn same_bytes(left: &[u8], right: &[u8]) -> bool {
    let size = right.len();
    if left.len() != size {
        return false;
    }
    if size >= 8 {
        let mut at = 0;
        while at + 8 < size {
            if word_at(left, at) != word_at(right, at) {
                return false;
            }
            at += 8;
        }
        return word_at(left, size - 8) == word_at(right, size - 8);
    }
    if size >= 4 {
        let pick = |bytes: &[u8], at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        return pick(left, 0) == pick(right, 0) && pick(left, size - 4) == pick(right, size - 4);
    }
    left.iter().zip(right).all(|(a, b)| a == b)
}

#[inline(always)]
fn word_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[inline(always)]
fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

#[cfg(target_arch = "x86_64")]
const LANES: usize = 16;

/// Where the first quote, backslash or control character of 16 bytes is; `LANES` or more if nowhere.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn special(bytes: &[u8]) -> usize {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    assert!(bytes.len() >= LANES);
    // SAFETY: SSE2 is part of x86_64; the load takes the 16 bytes that the assertion proves to be there, at any alignment.
    let mask = unsafe {
        let chunk = _mm_loadu_si128(bytes.as_ptr().cast::<__m128i>());
        let quote = _mm_cmpeq_epi8(chunk, _mm_set1_epi8(b'"' as i8));
        let slash = _mm_cmpeq_epi8(chunk, _mm_set1_epi8(b'\\' as i8));
        let control = _mm_cmpeq_epi8(_mm_min_epu8(chunk, _mm_set1_epi8(0x1f)), chunk);
        _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, slash), control))
    };
    (mask as u32).trailing_zeros() as usize
}

#[cfg(not(target_arch = "x86_64"))]
const LANES: usize = 8;

/// The same for 8 bytes, in one register. Reports only a first byte that is right: borrows go to later bytes only.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn special(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let word = word_at(bytes, 0);
    let zero = |x: u64| x.wrapping_sub(ONES) & !x & HIGHS;
    let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
    let found = zero(word ^ (ONES * b'"' as u64)) | zero(word ^ (ONES * b'\\' as u64)) | control;
    (found.trailing_zeros() / 8) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_finds_the_first_of_its_kind() {
        for byte in 0..=255u8 {
            for at in 0..LANES {
                let mut bytes = [b'a'; 32];
                bytes[at] = byte;
                let expected = if is_special(byte) { at } else { LANES };
                assert_eq!(special(&bytes[..LANES]).min(LANES), expected, "byte {byte} at {at}");
            }
        }
    }
}
