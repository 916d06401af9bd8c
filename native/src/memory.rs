//! The kernel's allocator: the system's, but for blocks of a MiB and more, which are mappings of their own.
//!
//! Columns of one slice are tens of megabytes, freed and made again. The system's allocator gives such blocks back to the
//! operating system at once, so that two thirds of the time of a scan would be page faults, and it copies a block that
//! grows. Here freed blocks are kept for the next slice, up to a bound; blocks grow by `mremap`, which moves no byte; and
//! large pages are asked for. Nothing belongs to a thread: threads of the interpreter come and go.
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::{Mutex, MutexGuard};

const MIB: usize = 1 << 20;
const LARGE_BYTES: usize = MIB;
const PAGE_BYTES: usize = 4096;
const HUGE_PAGE_BYTES: usize = 2 * MIB;
const KEEP_BYTES: usize = 128 * MIB;
const PLACES: usize = 32;

#[global_allocator]
static ALLOCATOR: Blocks = Blocks;

static KEPT: Mutex<Kept> = Mutex::new(Kept { blocks: [(0, 0); PLACES], count: 0, bytes: 0, bytes_max: KEEP_BYTES });

/// Sets how many bytes of freed blocks are kept at most, and gives back what is above.
pub fn keep(bytes_max: usize) {
    let mut kept = lock();
    kept.bytes_max = bytes_max;
    while kept.bytes > bytes_max {
        kept.drop_oldest();
    }
}

/// Bytes of freed blocks kept now.
pub fn kept() -> usize {
    lock().bytes
}

struct Blocks;

/// Freed blocks, oldest first: address and length.
struct Kept {
    blocks: [(usize, usize); PLACES],
    count: usize,
    bytes: usize,
    bytes_max: usize,
}

fn lock() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Kept {
    fn put(&mut self, address: usize, length: usize) {
        if length > self.bytes_max {
            unmap(address, length);
            return;
        }
        while self.count == PLACES || self.bytes + length > self.bytes_max {
            self.drop_oldest();
        }
        self.blocks[self.count] = (address, length);
        self.count += 1;
        self.bytes += length;
    }

    /// The smallest block of at least `length` bytes and at most four times that.
    fn take(&mut self, length: usize) -> Option<(usize, usize)> {
        let fits = |found: usize| found >= length && found / 4 <= length;
        let place = (0..self.count).filter(|&place| fits(self.blocks[place].1)).min_by_key(|&place| self.blocks[place].1)?;
        Some(self.remove(place))
    }

    fn drop_oldest(&mut self) {
        if self.count > 0 {
            let (address, length) = self.remove(0);
            unmap(address, length);
        }
    }

    fn remove(&mut self, place: usize) -> (usize, usize) {
        let found = self.blocks[place];
        self.blocks.copy_within(place + 1..self.count, place);
        self.count -= 1;
        self.bytes -= found.1;
        found
    }
}

/// The length of the mapping for a block of `size` bytes: up to an eighth more, so that sizes repeat.
fn length_of(size: usize) -> Option<usize> {
    let step = (size.checked_next_power_of_two()? / 8).max(LARGE_BYTES / 8);
    size.checked_next_multiple_of(step)
}

fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE_BYTES && layout.align() <= PAGE_BYTES
}

/// A new mapping of zeros, on a border of large pages; null when there is no memory.
fn map(length: usize) -> *mut u8 {
    let room = if length >= 2 * HUGE_PAGE_BYTES { length + HUGE_PAGE_BYTES } else { length };
    // SAFETY: an anonymous mapping at an address of the system's choice touches no other memory.
    let found =
        unsafe { libc::mmap(ptr::null_mut(), room, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) };
    if found == libc::MAP_FAILED {
        return ptr::null_mut();
    }
    let address = found as usize;
    if room == length {
        return found.cast();
    }
    let start = address.next_multiple_of(HUGE_PAGE_BYTES);
    if start > address {
        unmap(address, start - address);
    }
    if address + room > start + length {
        unmap(start + length, address + room - start - length);
    }
    // SAFETY: advice on a mapping just made; a system that knows it not refuses, and nothing is lost.
    unsafe { libc::madvise(start as *mut _, length, libc::MADV_HUGEPAGE) };
    start as *mut u8
}

fn unmap(address: usize, length: usize) {
    // SAFETY: callers give a part of a mapping of `map` that nobody uses any more.
    unsafe { libc::munmap(address as *mut _, length) };
}

// SAFETY: a block is the system's or a mapping of its own by `is_large` of its layout, which the caller gives back unchanged;
// mappings are whole pages, so every alignment up to a page holds; `length_of` gives the same length for the same size.
unsafe impl GlobalAlloc for Blocks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !is_large(layout) {
            return System.alloc(layout);
        }
        let Some(length) = length_of(layout.size()) else { return ptr::null_mut() };
        let found = lock().take(length);
        match found {
            Some((address, had)) => {
                if had > length {
                    unmap(address + length, had - length);
                }
                address as *mut u8
            }
            None => map(length),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !is_large(layout) {
            return System.alloc_zeroed(layout);
        }
        length_of(layout.size()).map_or(ptr::null_mut(), map) // a new mapping is zeros, a kept block is not
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !is_large(layout) {
            return System.dealloc(block, layout);
        }
        if let Some(length) = length_of(layout.size()) {
            lock().put(block as usize, length);
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return ptr::null_mut() };
        match (is_large(layout), is_large(wanted)) {
            (false, false) => System.realloc(block, layout, size),
            (true, true) => match (length_of(layout.size()), length_of(size)) {
                (Some(had), Some(length)) if had == length => block,
                (Some(had), Some(length)) => resize(block, had, length),
                _ => ptr::null_mut(),
            },
            _ => {
                let found = self.alloc(wanted);
                if !found.is_null() {
                    ptr::copy_nonoverlapping(block, found, layout.size().min(size));
                    self.dealloc(block, layout);
                }
                found
            }
        }
    }
}

/// The mapping with another length, here or elsewhere; null, and the old one untouched, when there is no memory.
fn resize(block: *mut u8, had: usize, length: usize) -> *mut u8 {
    // SAFETY: `block` is the start of a mapping of `had` bytes that only the caller uses.
    let moved = unsafe { libc::mremap(block.cast(), had, length, libc::MREMAP_MAYMOVE) };
    if moved == libc::MAP_FAILED {
        return ptr::null_mut();
    }
    if length > had && length >= 2 * HUGE_PAGE_BYTES {
        // SAFETY: advice on a mapping of that length.
        unsafe { libc::madvise(moved, length, libc::MADV_HUGEPAGE) };
    }
    moved.cast()
}
