//! The heap in use, counted by the allocator.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[global_allocator]
static HEAP: Counting = Counting;

fn grow(bytes: usize) {
    let used = USED.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(used, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged; only sums are kept beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        let memory = unsafe { System.alloc(layout) };
        if !memory.is_null() {
            grow(layout.size());
        }
        memory
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if !memory.is_null() {
            grow(layout.size());
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) };
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        let memory = unsafe { System.realloc(memory, layout, size) };
        if !memory.is_null() {
            grow(size);
            USED.fetch_sub(layout.size(), Ordering::Relaxed);
        }
        memory
    }
}

/// Bytes in use now; the peak starts again from there.
pub(crate) fn mark() -> usize {
    let used = USED.load(Ordering::Relaxed);
    PEAK.store(used, Ordering::Relaxed);
    used
}

/// The peak since [`mark`].
pub(crate) fn peak() -> usize {
    PEAK.load(Ordering::Relaxed)
}
