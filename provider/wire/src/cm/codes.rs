//! The numbers of the communication manager's messages.

/// Attribute identifiers.
#[allow(missing_docs)] // the names of the messages
pub mod attribute {
    pub const REQ: u16 = 0x0010;
    pub const MRA: u16 = 0x0011;
    pub const REJ: u16 = 0x0012;
    pub const REP: u16 = 0x0013;
    pub const RTU: u16 = 0x0014;
    pub const DREQ: u16 = 0x0015;
    pub const DREP: u16 = 0x0016;
    pub const SIDR_REQ: u16 = 0x0017;
    pub const SIDR_REP: u16 = 0x0018;
    pub const LAP: u16 = 0x0019;
    pub const APR: u16 = 0x001a;

    /// The messages' names.
    pub const NAMES: [(&str, u16); 11] = [
        ("REQ", REQ),
        ("MRA", MRA),
        ("REJ", REJ),
        ("REP", REP),
        ("RTU", RTU),
        ("DREQ", DREQ),
        ("DREP", DREP),
        ("SIDR_REQ", SIDR_REQ),
        ("SIDR_REP", SIDR_REP),
        ("LAP", LAP),
        ("APR", APR),
    ];
}

/// Which message an MRA or a REJ is about: two bits.
pub mod about {
    /// A REQ.
    pub const REQ: u8 = 0;
    /// A REP.
    pub const REP: u8 = 1;
    /// A LAP, in an MRA; any other message, or none, in a REJ.
    pub const OTHER: u8 = 2;
}

/// Reasons of a REJ.
#[allow(missing_docs)] // the specification's names
pub mod reject {
    pub const NO_QP: u16 = 1;
    pub const NO_EEC: u16 = 2;
    pub const NO_RESOURCES: u16 = 3;
    pub const TIMEOUT: u16 = 4;
    pub const UNSUPPORTED: u16 = 5;
    pub const INVALID_COMM_ID: u16 = 6;
    pub const INVALID_COMM_INSTANCE: u16 = 7;
    pub const INVALID_SERVICE_ID: u16 = 8;
    pub const INVALID_TRANSPORT: u16 = 9;
    pub const STALE_CONNECTION: u16 = 10;
    pub const RDC_DOES_NOT_EXIST: u16 = 11;
    pub const INVALID_GID: u16 = 12;
    pub const INVALID_LID: u16 = 13;
    pub const INVALID_SL: u16 = 14;
    pub const INVALID_TRAFFIC_CLASS: u16 = 15;
    pub const INVALID_HOP_LIMIT: u16 = 16;
    pub const INVALID_PACKET_RATE: u16 = 17;
    pub const INVALID_ALTERNATE_GID: u16 = 18;
    pub const INVALID_ALTERNATE_LID: u16 = 19;
    pub const INVALID_ALTERNATE_SL: u16 = 20;
    pub const INVALID_ALTERNATE_TRAFFIC_CLASS: u16 = 21;
    pub const INVALID_ALTERNATE_HOP_LIMIT: u16 = 22;
    pub const INVALID_ALTERNATE_PACKET_RATE: u16 = 23;
    pub const PORT_AND_CM_REDIRECT: u16 = 24;
    pub const PORT_REDIRECT: u16 = 25;
    pub const INVALID_MTU: u16 = 26;
    pub const INSUFFICIENT_RESPONDER_RESOURCES: u16 = 27;
    pub const CONSUMER_DEFINED: u16 = 28;
    pub const INVALID_RNR_RETRY: u16 = 29;
    pub const DUPLICATE_COMM_ID: u16 = 30;
    pub const INVALID_CLASS_VERSION: u16 = 31;
    pub const INVALID_FLOW_LABEL: u16 = 32;
    pub const INVALID_ALTERNATE_FLOW_LABEL: u16 = 33;
    pub const VENDOR_OPTION_NOT_SUPPORTED: u16 = 35;
}

/// Status of an APR.
#[allow(missing_docs)] // the specification's names
pub mod apr_status {
    pub const ALTERNATE_LOADED: u8 = 0;
    pub const INVALID_COMM_ID: u8 = 1;
    pub const UNSUPPORTED: u8 = 2;
    pub const REJECTED: u8 = 3;
    pub const INVALID_QPN: u8 = 6;
}

/// Status of a SIDR_REP.
#[allow(missing_docs)] // the specification's names
pub mod sidr_status {
    pub const VALID: u8 = 0;
    pub const UNSUPPORTED: u8 = 1;
    pub const REJECTED: u8 = 2;
    pub const NO_QP: u8 = 3;
    pub const REDIRECT: u8 = 4;
    pub const UNSUPPORTED_VERSION: u8 = 5;
}
