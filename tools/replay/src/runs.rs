//! Runs: packets that left by one system call (UDP's segmentation offload), or came in one piece,
//! which an interface shows as one datagram. All of a run are of one length but the last, which may
//! be shorter; a header at each end says which length that is.

use ferroce_wire::opcode::{self, OpcodeInfo, PayloadRule};
use ferroce_wire::{Bth, ICRC_LEN, bth};

/// Packets of four bytes' multiples, so no header is anywhere else.
const STEP: usize = 4;

/// The packets in a datagram of `len` bytes, of which the first were kept; each with its length.
/// What is no run is one packet.
pub(crate) fn split(kept: &[u8], len: usize) -> impl Iterator<Item = (&[u8], usize)> {
    let each = length_of_each(kept, len).unwrap_or(len).max(1);
    (0..len).step_by(each).map_while(move |start| {
        let end = (start + each).min(len);
        let bytes = kept.get(start..end.min(kept.len()))?;
        Some((bytes, end - start))
    })
}

/// How long all but the last are; `None`: there is one, or what was kept does not tell.
fn length_of_each(kept: &[u8], len: usize) -> Option<usize> {
    let first = Bth::parse(kept)?;
    let info = opcode::info(first.opcode)?;
    let least = usize::from(info.header_len) + ICRC_LEN;
    let most = match info.payload {
        PayloadRule::None => least,
        PayloadRule::Word8 => least + 8,
        PayloadRule::Words => least + 256,
        PayloadRule::Reserved16 => least + 16,
        PayloadRule::Full | PayloadRule::Some | PayloadRule::Any => len,
    };
    (least..=most.min(len.saturating_sub(1)))
        .step_by(STEP)
        .find(|each| is_run(kept, len, *each, (&first, info)))
}

/// Whether there is a header of the same queue pair wherever one would have to be.
fn is_run(kept: &[u8], len: usize, each: usize, (first, info): (&Bth, &OpcodeInfo)) -> bool {
    let others = (each..len).step_by(each).enumerate();
    let mut seen = others
        .take_while(|(_, at)| at + bth::LEN <= kept.len())
        .peekable();
    seen.peek().is_some()
        && seen.all(|(before, at)| {
            let Some(next) = Bth::parse(&kept[at..]) else {
                return false;
            };
            let Some(other) = opcode::info(next.opcode) else {
                return false;
            };

            // What bears payload takes a PSN each. Acknowledgements are of any, a READ request
            // takes as many as its response.
            let psn = (first.psn + before as u32 + 1) & 0x00ff_ffff;
            let of_any = matches!(info.payload, PayloadRule::None | PayloadRule::Words);
            let in_order = of_any || next.psn == psn;
            let fits = usize::from(other.header_len) + ICRC_LEN <= len - at;
            (next.dest_qp, next.pkey) == (first.dest_qp, first.pkey)
                && other.service == info.service
                && in_order
                && fits
        })
}

#[cfg(test)]
mod tests {
    use ferroce_wire::opcode::{RC_ACKNOWLEDGE, RC_SEND_ONLY, RC_WRITE_FIRST, RC_WRITE_MIDDLE};
    use proptest::prelude::*;

    use super::*;

    /// A packet whose payload and ICRC could be taken for anything.
    fn packet(opcode: u8, psn: u32, payload: usize) -> Vec<u8> {
        let [_, high, middle, low] = psn.to_be_bytes();
        let mut bytes = vec![opcode, 0, 0xff, 0xff, 0, 0, 1, 2, 0, high, middle, low];
        let headers = usize::from(opcode::info(opcode).unwrap().header_len);
        bytes.resize(headers, 0xff);
        bytes.resize(headers + payload + ICRC_LEN, 0);
        bytes
    }

    fn lengths(bytes: &[u8], len: usize) -> Vec<usize> {
        split(bytes, len).map(|(_, len)| len).collect()
    }

    #[test]
    fn a_run_is_taken_apart() {
        // The RETH makes the first packet of a WRITE longer: it takes one more along at most.
        let first = packet(RC_WRITE_FIRST, 0xff_ffff, 1024);
        let whole = [first, packet(RC_WRITE_MIDDLE, 0, 1024)].concat();
        assert_eq!(lengths(&whole, whole.len()), [1056, 1040]);

        let sends: Vec<u8> = (7..17)
            .flat_map(|psn| packet(RC_SEND_ONLY, psn, 64))
            .collect();
        assert_eq!(lengths(&sends, sends.len()), [80; 10]);

        let acks: Vec<u8> = [3, 5, 4]
            .iter()
            .flat_map(|psn| packet(RC_ACKNOWLEDGE, *psn, 0))
            .collect();
        assert_eq!(lengths(&acks, acks.len()), [20; 3]);
    }

    #[test]
    fn one_packet_is_one() {
        for payload in [0, 4, 1024, 4096] {
            let bytes = packet(RC_SEND_ONLY, 7, payload);
            assert_eq!(lengths(&bytes, bytes.len()), [bytes.len()]);
        }
        // The next packet of another queue pair is no part of it.
        let mut other = packet(RC_SEND_ONLY, 8, 64);
        other[7] += 1;
        let bytes = [packet(RC_SEND_ONLY, 7, 64), other].concat();
        assert_eq!(lengths(&bytes, bytes.len()), [160]);
        assert_eq!(lengths(&[], 0), []);
    }

    #[test]
    fn of_a_run_that_was_cut_there_is_what_was_kept() {
        let run: Vec<u8> = (0..4)
            .flat_map(|psn| packet(RC_SEND_ONLY, psn, 64))
            .collect();
        let pieces: Vec<_> = split(&run[..100], run.len()).collect();
        assert_eq!(pieces.len(), 2);
        assert_eq!((pieces[1].0.len(), pieces[1].1), (20, 80));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_of_what_is_whole(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            more in 0..100_usize,
        ) {
            let joined: Vec<u8> = split(&bytes, bytes.len()).flat_map(|(kept, _)| kept).copied().collect();
            prop_assert_eq!(&joined, &bytes);
            for (kept, len) in split(&bytes, bytes.len() + more) {
                prop_assert!(kept.len() <= len);
            }
        }
    }
}
