//! From the text of an expression to its parts, by recursive descent.

use ferroce_wire::cm::attribute;
use ferroce_wire::opcode;

use super::{ExpressionError, FIELDS, Field, KINDS, MAX_DEPTH, Node, ORDERS, Order, SERVICES};
use crate::faults::text::number;

pub(super) struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Parser<'a> {
        Parser {
            text,
            at: 0,
            depth: 0,
        }
    }

    /// All of the text.
    pub(super) fn whole(&mut self) -> Result<Node, ExpressionError> {
        let root = self.any()?;
        match self.peek() {
            "" => Ok(root),
            _ => Err(self.wants("`and`, `or` or the end")),
        }
    }

    fn any(&mut self) -> Result<Node, ExpressionError> {
        let mut nodes = vec![self.all()?];
        while self.takes("or") {
            nodes.push(self.all()?);
        }
        Ok(alone(nodes, Node::Any))
    }

    fn all(&mut self) -> Result<Node, ExpressionError> {
        let mut nodes = vec![self.one()?];
        while self.takes("and") {
            nodes.push(self.one()?);
        }
        Ok(alone(nodes, Node::All))
    }

    fn one(&mut self) -> Result<Node, ExpressionError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.wants("less, as no more may lie within each other"));
        }

        let node = if self.takes("not") {
            Node::Not(Box::new(self.one()?))
        } else if self.takes("(") {
            let node = self.any()?;
            if !self.takes(")") {
                return Err(self.wants("`)`, `and` or `or`"));
            }
            node
        } else {
            self.comparison()?
        };

        self.depth -= 1;
        Ok(node)
    }

    fn comparison(&mut self) -> Result<Node, ExpressionError> {
        if self.takes("service") {
            let order = self.sameness()?;
            let service = self.named(&SERVICES, "")?;
            return Ok(negated(Node::Service(service), order));
        }

        if self.takes("cm") {
            let order = self.sameness()?;
            let message = self.named(&attribute::NAMES, "")?;
            return Ok(negated(Node::Message(message), order));
        }

        let names = names(&FIELDS);
        let field = find(&FIELDS, self.peek());
        let field =
            field.ok_or_else(|| self.wants(&format!("`not`, `(`, service, cm, {names}")))?;
        self.next();
        if field == Field::Opcode && !self.peek().starts_with(['%', '<', '>']) {
            let order = self.sameness()?;
            return Ok(negated(self.opcode()?, order));
        }

        let mut modulus = 0;
        if self.takes("%") {
            self.peek();
            let at = self.at;
            modulus = self.number("a number from 1 on")?;
            if modulus == 0 {
                self.at = at;
                return Err(self.wants("a number from 1 on"));
            }
        }

        let order = find(&ORDERS, self.peek());
        let order = order.ok_or_else(|| self.wants("`=`, `!=`, `<`, `<=`, `>` or `>=`"))?;
        self.next();
        let value = self.number("a number, decimal or with 0x")?;
        Ok(Node::Number(field, modulus, order, value))
    }

    /// `=` or `!=`.
    fn sameness(&mut self) -> Result<Order, ExpressionError> {
        match find(&ORDERS, self.peek()) {
            Some(order @ (Order::Equal | Order::Other)) => {
                self.next();
                Ok(order)
            }
            _ => Err(self.wants("`=` or `!=`")),
        }
    }

    /// A kind of packets, or one opcode by its name or number.
    fn opcode(&mut self) -> Result<Node, ExpressionError> {
        let word = self.peek();
        let exactly = |code: u64| Node::Number(Field::Opcode, 0, Order::Equal, code);
        if let Some(code) = number(word).filter(|code| *code <= 0xff) {
            self.next();
            return Ok(exactly(code));
        }

        let wanted = opcode_name(word);
        let known = opcode::all().find(|info| opcode_name(info.name) == wanted);
        if let Some(info) = known {
            self.next();
            return Ok(exactly(info.opcode.into()));
        }

        self.named(
            &KINDS,
            ", an opcode such as RC_WRITE_LAST_WITH_IMMEDIATE, or its number",
        )
        .map(Node::Opcode)
    }

    /// The value of a name in a list.
    fn named<T: Copy>(&mut self, list: &[(&str, T)], or: &str) -> Result<T, ExpressionError> {
        let found = find(list, self.peek());
        let found = found.ok_or_else(|| self.wants(&format!("{}{or}", names(list))))?;
        self.next();
        Ok(found)
    }

    fn number(&mut self, wanted: &str) -> Result<u64, ExpressionError> {
        let value = number(self.peek()).ok_or_else(|| self.wants(wanted))?;
        self.next();
        Ok(value)
    }

    /// Takes the next token if it is this one.
    fn takes(&mut self, token: &str) -> bool {
        let same = self.peek().eq_ignore_ascii_case(token);
        if same {
            self.next();
        }
        same
    }

    /// The next token; empty at the end.
    fn peek(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        let rest = &self.text[self.at..];
        let word = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let len = match word.unwrap_or(rest.len()) {
            0 => {
                let sign = ORDERS.iter().find(|(sign, _)| rest.starts_with(sign));
                let first = rest.chars().next().map_or(0, char::len_utf8);
                sign.map_or(first, |(sign, _)| sign.len())
            }
            len => len,
        };
        &rest[..len]
    }

    fn next(&mut self) {
        self.at += self.peek().len();
    }

    fn wants(&mut self, what: &str) -> ExpressionError {
        self.peek();
        ExpressionError {
            text: self.text.to_owned(),
            at: self.at,
            wanted: what.to_owned(),
        }
    }
}

fn alone(mut nodes: Vec<Node>, of: impl FnOnce(Vec<Node>) -> Node) -> Node {
    match nodes.len() {
        1 => nodes.remove(0),
        _ => of(nodes),
    }
}

fn negated(node: Node, order: Order) -> Node {
    match order {
        Order::Other => Node::Not(Box::new(node)),
        _ => node,
    }
}

fn find<T: Copy>(list: &[(&str, T)], word: &str) -> Option<T> {
    let found = list
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(word));
    found.map(|(_, value)| *value)
}

fn names<T>(list: &[(&str, T)]) -> String {
    let names: Vec<&str> = list.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// An opcode's name in one word: `RC RDMA WRITE Last with Immediate` and
/// `rc_write_last_with_immediate` become the same.
fn opcode_name(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let words = words.filter(|word| !word.is_empty() && !word.eq_ignore_ascii_case("rdma"));
    words.collect::<Vec<_>>().join("_").to_ascii_lowercase()
}
