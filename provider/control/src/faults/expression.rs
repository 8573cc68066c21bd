//! Which packets a fault is about: `opcode=ACK and psn%64=3`.
//!
//! ```text
//! any        = all { "or" all }
//! all        = one { "and" one }
//! one        = "not" one | "(" any ")" | field [ "%" number ] comparison value | message
//! message    = "cm" ( "=" | "!=" ) ( "REQ" | "REP" | "RTU" | … )
//! field      = "opcode" | "psn" | "qp" | "length" | "payload" | "service" | "ackreq" | "solicited"
//! comparison = "=" | "!=" | "<" | "<=" | ">" | ">="
//! ```

mod parser;

use std::fmt;
use std::str::FromStr;

use ferroce_wire::mad::CLASS_CM;
use ferroce_wire::{MadHeader, Operation, Packet, Service, Syndrome};

use super::text::as_text;
use parser::Parser;

/// The longest expression, in bytes.
pub const MAX_EXPRESSION: usize = 256;
/// How deep one may lie in another.
const MAX_DEPTH: u32 = 16;

/// A condition that packets meet or do not. Two are equal if they are written alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    text: String,
    root: Node,
}

impl Expression {
    /// Whether a packet meets it. `length` is its size from the BTH to the ICRC.
    pub fn matches(&self, packet: &Packet<'_>, length: usize) -> bool {
        self.root.matches(packet, length)
    }

    /// Whether it asks for messages of connection management, which QP1 sends and nobody else.
    pub fn is_of_messages(&self) -> bool {
        self.root.is_of_messages()
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Expression {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Self, ExpressionError> {
        let text = text.trim();
        if text.len() > MAX_EXPRESSION {
            return Err(ExpressionError {
                text: text.chars().take(MAX_EXPRESSION).collect(),
                at: MAX_EXPRESSION,
                wanted: format!("the end, as it may have {MAX_EXPRESSION} bytes"),
            });
        }
        Ok(Expression {
            text: text.to_owned(),
            root: Parser::new(text).whole()?,
        })
    }
}

as_text!(Expression);

/// Where an expression makes no sense, and what is wanted there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    text: String,
    /// In bytes.
    at: usize,
    wanted: String,
}

impl std::error::Error for ExpressionError {}

impl fmt::Display for ExpressionError {
    /// The expression, and below it an arrow to the place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.text.get(..self.at).unwrap_or(&self.text);
        let column = before.chars().count();
        writeln!(f, "the expression makes no sense here:")?;
        writeln!(f, "    {}", self.text)?;
        writeln!(f, "    {:column$}^", "")?;
        write!(f, "wanted: {}", self.wanted)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Any(Vec<Node>),
    All(Vec<Node>),
    Not(Box<Node>),
    /// Field, modulus (0: none), comparison, value.
    Number(Field, u64, Order, u64),
    Opcode(Kind),
    Service(Service),
    /// A message of connection management: its attribute.
    Message(u16),
}

impl Node {
    fn matches(&self, packet: &Packet<'_>, length: usize) -> bool {
        match self {
            Node::Any(nodes) => nodes.iter().any(|node| node.matches(packet, length)),
            Node::All(nodes) => nodes.iter().all(|node| node.matches(packet, length)),
            Node::Not(node) => !node.matches(packet, length),
            Node::Number(field, modulus, order, value) => {
                let number = field.of(packet, length);
                let number = number.checked_rem(*modulus).unwrap_or(number);
                order.holds(number, *value)
            }
            Node::Opcode(kind) => kind.is_of(packet),
            Node::Service(service) => packet.info.service == *service,
            Node::Message(wanted) => {
                let mad = packet.payload.private().and_then(MadHeader::parse);
                mad.is_some_and(|mad| mad.class == CLASS_CM && mad.attribute == *wanted)
            }
        }
    }

    fn is_of_messages(&self) -> bool {
        match self {
            Node::Any(nodes) | Node::All(nodes) => nodes.iter().any(Node::is_of_messages),
            Node::Not(node) => node.is_of_messages(),
            Node::Message(_) => true,
            Node::Number(..) | Node::Opcode(_) | Node::Service(_) => false,
        }
    }
}

/// What of a packet is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Opcode,
    Psn,
    Qp,
    Length,
    Payload,
    AckReq,
    Solicited,
}

/// By name; `service` is none, as it has no numbers.
const FIELDS: [(&str, Field); 7] = [
    ("opcode", Field::Opcode),
    ("psn", Field::Psn),
    ("qp", Field::Qp),
    ("length", Field::Length),
    ("payload", Field::Payload),
    ("ackreq", Field::AckReq),
    ("solicited", Field::Solicited),
];

impl Field {
    fn of(self, packet: &Packet<'_>, length: usize) -> u64 {
        match self {
            Field::Opcode => packet.bth.opcode.into(),
            Field::Psn => packet.bth.psn.into(),
            Field::Qp => packet.bth.dest_qp.into(),
            Field::Length => length as u64,
            Field::Payload => packet.content().len() as u64,
            Field::AckReq => packet.bth.ack_req.into(),
            Field::Solicited => packet.bth.solicited.into(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Equal,
    Other,
    Less,
    NotMore,
    More,
    NotLess,
}

/// Longer signs first.
const ORDERS: [(&str, Order); 7] = [
    ("==", Order::Equal),
    ("!=", Order::Other),
    ("<=", Order::NotMore),
    (">=", Order::NotLess),
    ("=", Order::Equal),
    ("<", Order::Less),
    (">", Order::More),
];

impl Order {
    fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Order::Equal => left == right,
            Order::Other => left != right,
            Order::Less => left < right,
            Order::NotMore => left <= right,
            Order::More => left > right,
            Order::NotLess => left >= right,
        }
    }
}

/// What packets are called together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Request,
    Response,
    Ack,
    Nak,
    RnrNak,
    Atomic,
    Of(Operation),
}

const KINDS: [(&str, Kind); 15] = [
    ("request", Kind::Request),
    ("response", Kind::Response),
    ("ack", Kind::Ack),
    ("nak", Kind::Nak),
    ("rnr_nak", Kind::RnrNak),
    ("atomic", Kind::Atomic),
    ("send", Kind::Of(Operation::Send)),
    ("write", Kind::Of(Operation::Write)),
    ("read", Kind::Of(Operation::ReadRequest)),
    ("read_response", Kind::Of(Operation::ReadResponse)),
    ("atomic_ack", Kind::Of(Operation::AtomicAcknowledge)),
    ("selective_ack", Kind::Of(Operation::SelectiveAcknowledge)),
    ("atomic_write", Kind::Of(Operation::AtomicWrite)),
    ("flush", Kind::Of(Operation::Flush)),
    ("cnp", Kind::Of(Operation::Cnp)),
];

impl Kind {
    fn is_of(self, packet: &Packet<'_>) -> bool {
        let info = packet.info;
        let syndrome = || packet.ext.aeth.map(|aeth| aeth.kind());
        let acknowledges = info.operation == Operation::Acknowledge;
        match self {
            Kind::Request => info.is_request(),
            Kind::Response => info.is_response(),
            Kind::Ack => acknowledges && matches!(syndrome(), Some(Syndrome::Ack(_))),
            Kind::Nak => acknowledges && matches!(syndrome(), Some(Syndrome::Nak(_))),
            Kind::RnrNak => acknowledges && matches!(syndrome(), Some(Syndrome::RnrNak { .. })),
            Kind::Atomic => info.is_atomic(),
            Kind::Of(operation) => info.operation == operation,
        }
    }
}

const SERVICES: [(&str, Service); 4] = [
    ("rc", Service::Rc),
    ("uc", Service::Uc),
    ("ud", Service::Ud),
    ("xrc", Service::Xrc),
];
