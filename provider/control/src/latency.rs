//! The buckets of a histogram of latencies: below 16 ns one for each nanosecond, above it 16 for
//! each power of two, so that none is wider than a sixteenth of its floor.

/// Bits that are told apart below the highest.
const FINE: u32 = 4;
/// Powers of two that are told apart: up to 2^40 ns.
const POWERS: u32 = 40;

/// How many there are.
pub const BUCKETS: usize = ((POWERS - FINE + 1) << FINE) as usize;

/// The bucket of a latency in nanoseconds; the last one has all that are longer, too.
pub fn bucket(nanos: u64) -> usize {
    let Some(power) = nanos.checked_ilog2().filter(|power| *power >= FINE) else {
        return nanos as usize;
    };
    let fine = (nanos >> (power - FINE)) & ((1 << FINE) - 1);
    let bucket = (u64::from(power - FINE + 1) << FINE) + fine;
    (bucket as usize).min(BUCKETS - 1)
}

/// The shortest latency in a bucket, in nanoseconds; beyond the last one `u64::MAX`.
pub fn floor(bucket: usize) -> u64 {
    if bucket >= BUCKETS {
        return u64::MAX;
    }
    let (power, fine) = (bucket >> FINE, bucket as u64 & ((1 << FINE) - 1));
    match power {
        0 => fine,
        _ => ((1 << FINE) + fine) << (power - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_ends_are_where_they_are_said_to_be() {
        assert_eq!(BUCKETS, 592);
        assert_eq!((bucket(0), bucket(15), bucket(16)), (0, 15, 16));
        assert_eq!(floor(BUCKETS - 1), (1 << 40) - (1 << 35));
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(floor(BUCKETS), u64::MAX);
    }

    #[test]
    fn each_bucket_begins_where_the_one_before_ends() {
        for at in 1..BUCKETS {
            assert_eq!((bucket(floor(at)), bucket(floor(at) - 1)), (at, at - 1));
        }
    }

    proptest! {
        #[test]
        fn a_latency_is_in_its_bucket(nanos in 0..1_u64 << 40) {
            let at = bucket(nanos);
            prop_assert!(floor(at) <= nanos && nanos < floor(at + 1));
            let wide = floor(at + 1).saturating_sub(floor(at));
            prop_assert!(at + 1 == BUCKETS || wide <= (floor(at) / 16).max(1));
        }
    }
}
