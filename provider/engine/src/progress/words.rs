//! Words that threads or processes share to agree on something: atomics of the standard library, in
//! the models of the tests those of loom, which tries every order in which the threads can go on
//! and everything that each may see.
//!
//! What is agreed on is in [`turn`](crate::progress::turn), [`sleep`](crate::progress::sleep) and
//! [`marks`](crate::progress::marks); their models are in `tests/models`.

use std::sync::atomic::{self, AtomicU32, AtomicU64, Ordering};

/// An atomic.
pub(crate) trait Word {
    type Value: Copy + PartialEq;

    fn load(&self, order: Ordering) -> Self::Value;
    fn store(&self, value: Self::Value, order: Ordering);
    fn swap(&self, value: Self::Value, order: Ordering) -> Self::Value;
    /// Whether it was `from`, and is `to` now: then with acquire and release semantics.
    fn change(&self, from: Self::Value, to: Self::Value) -> bool;
    /// A fence among all such words.
    fn fence();
}

/// An atomic of bits.
pub(crate) trait Bits: Word<Value = u64> {
    fn fetch_or(&self, bits: u64, order: Ordering) -> u64;
}

macro_rules! words {
    ($($atomic:ty: $value:ty),*) => {$(
        impl Word for $atomic {
            type Value = $value;

            #[inline(always)]
            fn load(&self, order: Ordering) -> $value {
                self.load(order)
            }

            #[inline(always)]
            fn store(&self, value: $value, order: Ordering) {
                self.store(value, order);
            }

            #[inline(always)]
            fn swap(&self, value: $value, order: Ordering) -> $value {
                self.swap(value, order)
            }

            #[inline(always)]
            fn change(&self, from: $value, to: $value) -> bool {
                self.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            }

            #[inline(always)]
            fn fence() {
                atomic::fence(Ordering::SeqCst);
            }
        }
    )*};
}

words!(AtomicU32: u32, AtomicU64: u64);

impl Bits for AtomicU64 {
    #[inline(always)]
    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.fetch_or(bits, order)
    }
}
