//! Which column a field belongs to, by the rules of `schemas/names.py`, and which fields an object has had already.
//!
//! A table of keys grows while records are read, so that a key seen before costs one comparison: each key remembers which two
//! keys followed it last. The table is bounded; what does not fit is `Unsure`.

use std::collections::HashMap;

use super::cursor::{Cursor, Sure, Unsure};

/// A field without column.
pub const NOWHERE: u32 = u32::MAX;
const NONE: u32 = u32::MAX;
/// Keys learned before the table is emptied at the next object, and those one object may bring.
const LEARNED_SOFT: usize = 512;
const LEARNED_HARD: usize = 4096;
const LEARNED_BYTES_MAX: usize = 256;

/// The names of one struct, as `NameIndex` has them.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// The exact field name that each column takes.
    pub sources: Vec<(String, u32)>,
    /// Landing names in lower case.
    pub folded: HashMap<String, u32>,
    /// Reserved names without their `_` at the end, in lower case, to their whole length.
    pub reserved: HashMap<String, usize>,
}

impl Names {
    /// The column of a field whose exact name no column takes.
    fn find_folded(&self, key: &[u8]) -> Sure<u32> {
        let key = std::str::from_utf8(key).map_err(|_| Unsure)?;
        if !key.is_ascii() && key.chars().any(is_shaky) {
            return Err(Unsure);
        }
        let mut name = key.replace('.', "_").to_lowercase();
        if self.is_reserved(&name) {
            name.push('_');
        }
        Ok(self.folded.get(&name).copied().unwrap_or(NOWHERE))
    }

    fn is_reserved(&self, lower: &str) -> bool {
        let length = self.reserved.get(lower.trim_end_matches('_'));
        length.is_some_and(|length| lower.len() >= *length)
    }
}

/// Letters whose lower case depends on their neighbours or on the age of the Unicode tables, or is ASCII.
fn is_shaky(letter: char) -> bool {
    matches!(letter, '\u{130}' | '\u{3a3}' | '\u{212a}' | '\u{1c89}'..='\u{1c8f}' | '\u{a7c0}'..='\u{a7ff}')
        || letter >= '\u{10000}'
}

struct Key {
    /// As it stands in a record, with quotes; empty when it cannot stand there without escapes.
    quoted: Box<[u8]>,
    slot: u32,
    /// The object that had it last.
    seen: u32,
    followers: [u32; 2],
}

/// The keys of one struct in one decode.
pub struct Keys<'p> {
    names: &'p Names,
    keys: Vec<Key>,
    ids: HashMap<Box<[u8]>, u32>,
    fixed: usize,
    first: u32,
}

impl<'p> Keys<'p> {
    pub fn new(names: &'p Names) -> Self {
        let mut keys = Keys { names, keys: Vec::new(), ids: HashMap::new(), fixed: 0, first: NONE };
        for (name, slot) in &names.sources {
            keys.add(name.as_bytes(), *slot);
        }
        keys.fixed = keys.keys.len();
        keys.first = if keys.fixed > 0 { 0 } else { NONE };
        for number in 1..keys.fixed {
            keys.keys[number - 1].followers[0] = number as u32;
        }
        keys
    }

    fn add(&mut self, name: &[u8], slot: u32) -> u32 {
        let id = self.keys.len() as u32;
        let plain = !name.iter().any(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\'));
        let quoted = if plain { [b"\"", name, b"\""].concat().into_boxed_slice() } else { Box::default() };
        self.keys.push(Key { quoted, slot, seen: 0, followers: [NONE; 2] });
        self.ids.insert(name.into(), id);
        id
    }

    /// To be called at the beginning of an object: keeps what was learned within its bound.
    #[inline(always)]
    pub fn begin(&mut self) {
        if self.keys.len() > self.fixed + LEARNED_SOFT {
            self.forget();
        }
    }

    #[inline(never)]
    fn forget(&mut self) {
        let fixed = self.fixed;
        self.keys.truncate(fixed);
        self.ids.retain(|_, id| (*id as usize) < fixed);
        for key in &mut self.keys {
            key.followers = [NONE; 2];
        }
        self.first = NONE;
    }

    /// Reads a key. `previous`: the key before it in this object. Returns its id and column; `object` numbers the object, from 1.
    #[inline(always)]
    pub fn read(&mut self, cursor: &mut Cursor, previous: Option<u32>, object: u32, scratch: &mut Vec<u8>) -> Sure<(u32, u32)> {
        let guess = match previous {
            None => self.first,
            Some(id) => self.keys[id as usize].followers[0],
        };
        let id = if guess != NONE && self.is_here(guess, cursor) { guess } else { self.find(cursor, previous, scratch)? };
        let key = &mut self.keys[id as usize];
        if key.seen == object {
            return Err(Unsure);
        }
        key.seen = object;
        Ok((id, key.slot))
    }

    /// Whether this key stands here; if so, it is consumed.
    #[inline(always)]
    fn is_here(&self, id: u32, cursor: &mut Cursor) -> bool {
        let quoted = &self.keys[id as usize].quoted;
        let here = !quoted.is_empty() && cursor.begins_with(quoted);
        if here {
            cursor.pos += quoted.len();
        }
        here
    }

    #[inline(never)]
    fn find(&mut self, cursor: &mut Cursor, previous: Option<u32>, scratch: &mut Vec<u8>) -> Sure<u32> {
        if let Some(id) = previous {
            let second = self.keys[id as usize].followers[1];
            if second != NONE && self.is_here(second, cursor) {
                self.keys[id as usize].followers.swap(0, 1);
                return Ok(second);
            }
        }
        cursor.expect(b'"')?;
        let name = cursor.text(scratch)?;
        let id = match self.ids.get(name) {
            Some(id) => *id,
            None => self.learn(name)?,
        };
        match previous {
            None => self.first = id,
            Some(before) => {
                let followers = &mut self.keys[before as usize].followers;
                *followers = [id, followers[0]];
            }
        }
        Ok(id)
    }

    fn learn(&mut self, name: &[u8]) -> Sure<u32> {
        if self.keys.len() >= self.fixed + LEARNED_HARD || name.len() > LEARNED_BYTES_MAX {
            return Err(Unsure);
        }
        let slot = self.names.find_folded(name)?;
        Ok(self.add(name, slot))
    }
}

/// Finds a key that comes twice among those of one object without columns. Keys are ranges of `bytes`, kept as a stack.
#[derive(Default)]
pub struct Spans {
    spans: Vec<(u32, u32)>,
    bytes: Vec<u8>,
}

/// Up to here each new key is compared with all; beyond, they are sorted at the end.
const COMPARED_MAX: usize = 16;

impl Spans {
    pub fn clear(&mut self) {
        self.spans.clear();
        self.bytes.clear();
    }

    pub fn mark(&self) -> (usize, usize) {
        (self.spans.len(), self.bytes.len())
    }

    /// One more key of the object that began at `mark`.
    pub fn push(&mut self, mark: (usize, usize), key: &[u8]) -> Sure<()> {
        let known = &self.spans[mark.0..];
        if known.len() < COMPARED_MAX && known.iter().any(|span| self.bytes_of(*span) == key) {
            return Err(Unsure);
        }
        let start = u32::try_from(self.bytes.len()).map_err(|_| Unsure)?;
        self.bytes.extend_from_slice(key);
        self.spans.push((start, start + key.len() as u32));
        Ok(())
    }

    fn bytes_of(&self, span: (u32, u32)) -> &[u8] {
        &self.bytes[span.0 as usize..span.1 as usize]
    }

    /// The end of the object that began at `mark`.
    pub fn end(&mut self, mark: (usize, usize)) -> Sure<()> {
        if self.spans.len() - mark.0 > COMPARED_MAX {
            let bytes = &self.bytes;
            let of = |span: &(u32, u32)| &bytes[span.0 as usize..span.1 as usize];
            let known = &mut self.spans[mark.0..];
            known.sort_unstable_by(|left, right| of(left).cmp(of(right)));
            if known.windows(2).any(|pair| of(&pair[0]) == of(&pair[1])) {
                return Err(Unsure);
            }
        }
        self.spans.truncate(mark.0);
        self.bytes.truncate(mark.1);
        Ok(())
    }
}
