//! Reading the bytes of one record: every length is held against what is left, and nothing is made room for on a claim.

use crate::json::cursor::{Sure, Unsure};

pub struct Cursor<'a> {
    data: &'a [u8],
    pos: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        Cursor { data, pos: 0 }
    }

    #[inline(always)]
    pub fn left(&self) -> usize {
        self.data.len() - self.pos
    }

    pub fn pos(&self) -> usize {
        self.pos
    }

    #[inline(always)]
    pub fn byte(&mut self) -> Sure<u8> {
        let byte = *self.data.get(self.pos).ok_or(Unsure)?;
        self.pos += 1;
        Ok(byte)
    }

    #[inline(always)]
    pub fn take(&mut self, count: usize) -> Sure<&'a [u8]> {
        if count > self.left() {
            return Err(Unsure);
        }
        let found = &self.data[self.pos..self.pos + count];
        self.pos += count;
        Ok(found)
    }

    /// `N` bytes, for numbers of a fixed size.
    #[inline(always)]
    pub fn array<const N: usize>(&mut self) -> Sure<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| Unsure)
    }

    /// A number of up to 64 bits, seven in each byte, the lowest first.
    #[inline(always)]
    pub fn varint(&mut self) -> Sure<u64> {
        let byte = self.byte()?;
        if byte < 0x80 {
            return Ok(u64::from(byte));
        }
        self.longer_varint(u64::from(byte & 0x7f))
    }

    #[inline]
    fn longer_varint(&mut self, mut number: u64) -> Sure<u64> {
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return Err(Unsure);
            }
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Unsure)
    }

    /// A signed number in the zigzag form: 0, -1, 1, -2, …
    #[inline(always)]
    pub fn zigzag(&mut self) -> Sure<i64> {
        self.varint().map(unzigzag)
    }
}

#[inline(always)]
pub fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}
