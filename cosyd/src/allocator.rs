//! How the allocator gives memory back.

/// Blocks of so many bytes and more are mapped by themselves, and go back to the system when they are freed.
#[cfg(target_env = "gnu")]
const LARGE: i32 = 512 * 1024;
/// So many free bytes at the end of a heap go back as well.
#[cfg(target_env = "gnu")]
const FREE: i32 = 128 * 1024;

/// Plans are made on copies of the planner's tables, which are large and do not last. The allocator of the
/// system's library takes the largest block it has been given back for usual from then on, and keeps such
/// blocks: it is told not to. To be called before there is another thread.
#[cfg(target_env = "gnu")]
pub fn give_large_blocks_back() {
    use nix::libc::{M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, mallopt};
    // SAFETY: sets two figures of the allocator, and nothing else runs yet.
    unsafe {
        mallopt(M_MMAP_THRESHOLD, LARGE);
        mallopt(M_TRIM_THRESHOLD, FREE);
    }
}

/// What is free within the heaps goes back too. Other threads that want memory wait for it.
#[cfg(target_env = "gnu")]
pub fn give_free_memory_back() {
    // SAFETY: gives back what nobody has; the allocator itself keeps others out meanwhile.
    unsafe { nix::libc::malloc_trim(0) };
}

/// Other libraries have no such settings.
#[cfg(not(target_env = "gnu"))]
pub const fn give_large_blocks_back() {}

/// Nor that.
#[cfg(not(target_env = "gnu"))]
pub const fn give_free_memory_back() {}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    /// Bytes that are mapped by themselves.
    fn mapped() -> usize {
        // SAFETY: reads figures of the allocator.
        unsafe { nix::libc::mallinfo2() }.hblkhd
    }

    #[test]
    fn a_large_block_is_mapped_whatever_was_freed_before() {
        const MIB: usize = 1 << 20;
        give_large_blocks_back();
        drop(std::hint::black_box(vec![1u8; 16 * MIB]));
        let before = mapped();
        let block = std::hint::black_box(vec![1u8; 8 * MIB]);
        assert!(mapped() >= before + 8 * MIB, "{} after {before}", mapped());
        drop(block);
        assert!(mapped() < before + MIB, "{} after {before}", mapped());
    }
}
