//! Asks the processor for a cache line before it is needed. The only `unsafe` in the project.
//!
//! A batch of decisions over many keys waits mostly for memory. Asked for all lines first, the
//! processor fetches them side by side; no safe operation does that through a lock.
#![expect(unsafe_code, reason = "the one intrinsic that a batch needs; argued beside its use")]

/// Starts to load the line at `address`. A hint: it reads nothing and cannot fail.
#[inline]
pub(super) fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: PREFETCHT0 changes no register and no memory and raises no fault, whatever the
        // address: one that is not mapped is ignored. The pointer is never dereferenced, so it need
        // not point to anything. SSE, which the instruction belongs to, is part of every x86_64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::prefetch;

    #[test]
    fn any_address_will_do() {
        let line = [1_u64; 8];
        for address in [0, 1, usize::MAX, usize::MAX / 2, line.as_ptr().addr()] {
            prefetch(address);
        }
        assert_eq!(line, [1; 8]);
    }
}
