//! What follows REQ and REP, and ends a connection, between the form that callers see and the one
//! on the wire.

use super::convert::field;
use super::messages::*;
use super::raw::*;

impl Mra {
    pub(super) fn from_raw(raw: &RawMra) -> Mra {
        Mra {
            local_comm_id: raw.local_comm_id.get(),
            remote_comm_id: raw.remote_comm_id.get(),
            message: raw.message >> 6,
            service_timeout: raw.service_timeout >> 3,
            private_data: PrivateData(raw.private_data),
        }
    }

    pub(super) fn to_raw(self) -> RawMra {
        RawMra {
            local_comm_id: self.local_comm_id.into(),
            remote_comm_id: self.remote_comm_id.into(),
            message: field(self.message, 2, 6),
            service_timeout: field(self.service_timeout, 5, 3),
            private_data: self.private_data.0,
        }
    }
}

impl Rej {
    pub(super) fn from_raw(raw: &RawRej) -> Rej {
        Rej {
            local_comm_id: raw.local_comm_id.get(),
            remote_comm_id: raw.remote_comm_id.get(),
            message: raw.message >> 6,
            ari_len: raw.ari_len >> 1,
            reason: raw.reason.get(),
            ari: PrivateData(raw.ari),
            private_data: PrivateData(raw.private_data),
        }
    }

    pub(super) fn to_raw(self) -> RawRej {
        RawRej {
            local_comm_id: self.local_comm_id.into(),
            remote_comm_id: self.remote_comm_id.into(),
            message: field(self.message, 2, 6),
            ari_len: field(self.ari_len, 7, 1),
            reason: self.reason.into(),
            ari: self.ari.0,
            private_data: self.private_data.0,
        }
    }
}

/// Messages that say no more than which connection they are about.
macro_rules! pairs {
    ($($message:ident)*) => {$(
        impl $message {
            pub(super) fn from_raw(raw: &RawPair) -> $message {
                $message {
                    local_comm_id: raw.local_comm_id.get(),
                    remote_comm_id: raw.remote_comm_id.get(),
                    private_data: PrivateData(raw.private_data),
                }
            }

            pub(super) fn to_raw(self) -> RawPair {
                RawPair {
                    local_comm_id: self.local_comm_id.into(),
                    remote_comm_id: self.remote_comm_id.into(),
                    private_data: self.private_data.0,
                }
            }
        }
    )*};
}

pairs!(Rtu Drep);

impl Dreq {
    pub(super) fn from_raw(raw: &RawDreq) -> Dreq {
        Dreq {
            local_comm_id: raw.local_comm_id.get(),
            remote_comm_id: raw.remote_comm_id.get(),
            remote_qpn: raw.qpn.number(),
            private_data: PrivateData(raw.private_data),
        }
    }

    pub(super) fn to_raw(self) -> RawDreq {
        RawDreq {
            local_comm_id: self.local_comm_id.into(),
            remote_comm_id: self.remote_comm_id.into(),
            qpn: NumberAnd8::new(self.remote_qpn, 0),
            private_data: self.private_data.0,
        }
    }
}
