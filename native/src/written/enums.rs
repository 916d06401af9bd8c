//! Symbols of enums by number.

use std::collections::HashMap;

const DENSE: usize = 256;

/// `dense` has the small numbers, which are nearly all there are.
pub struct Symbols {
    dense: Vec<Option<Box<str>>>,
    sparse: HashMap<i64, Box<str>>,
}

impl Symbols {
    pub fn new(given: Vec<(i64, String)>) -> Self {
        let mut found = Symbols { dense: Vec::new(), sparse: HashMap::new() };
        for (number, text) in given {
            match usize::try_from(number) {
                Ok(at) if at < DENSE => {
                    if found.dense.len() <= at {
                        found.dense.resize(at + 1, None);
                    }
                    found.dense[at] = Some(text.into());
                }
                _ => drop(found.sparse.insert(number, text.into())),
            }
        }
        found
    }

    #[inline(always)]
    pub fn find(&self, number: i64) -> Option<&str> {
        if let Some(found) = usize::try_from(number).ok().and_then(|at| self.dense.get(at)) {
            return found.as_deref();
        }
        self.sparse.get(&number).map(|text| &**text)
    }
}
