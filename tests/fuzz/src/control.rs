//! What daemon and clients say to each other: any bytes are a message or are refused, and a message
//! says the same after another turn through JSON.

use ferroce_control::protocol::{ClientMessage, ServerMessage};

/// Decodes as either end would, and says it again. Returns whether it was a message.
pub fn run(input: &[u8]) -> bool {
    let mut decoded = false;
    if let Ok(message) = ClientMessage::decode(input) {
        decoded = true;
        let bytes = message.encode().expect("what was decoded is encoded");
        let again = ClientMessage::decode(&bytes).expect("what was encoded is decoded");
        assert_eq!(format!("{message:?}"), format!("{again:?}"));
    }
    if let Ok(message) = ServerMessage::decode(input) {
        decoded = true;
        let bytes = message.encode().expect("what was decoded is encoded");
        let again = ServerMessage::decode(&bytes).expect("what was encoded is decoded");
        assert_eq!(format!("{message:?}"), format!("{again:?}"));
    }
    decoded
}
