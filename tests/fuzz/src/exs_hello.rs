//! What the peer of an EXS connection says of itself in the private data of a request or reply:
//! whatever it is, it is refused or says the same after another turn, and a connection with these
//! limits keeps within them.

use arbitrary::Unstructured;
use exs::proto::Limits;
use exs::proto::message::{HELLO, Hello};

use crate::exs::{LIMITS, drive};

/// The hello first, then the steps of a connection. Returns whether the hello was taken.
pub fn run(input: &[u8]) -> bool {
    let Some(hello) = Hello::parse(input) else {
        return false;
    };

    // What is not said is not looked at.
    let bytes = hello.encode();
    assert_eq!(Hello::parse(&bytes), Some(hello));

    // Else the rules about credits would not keep both ends going.
    assert!(hello.data_slots >= 2 && hello.control_slots >= 4 && hello.payload >= 64);

    // As the connection makes them of it.
    let limits = Limits {
        messages: hello.messages,
        peer_data: hello.data_slots,
        peer_control: hello.control_slots,
        payload: u64::from(hello.payload).min(LIMITS.payload),
        immediates: hello.immediates,
        ..LIMITS
    };
    drive(limits, Unstructured::new(&input[HELLO..]));
    true
}
