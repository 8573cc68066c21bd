//! Attributes as tables of bit fields.
//!
//! The attributes of management are too irregular for structures of bytes: fields of 1, 3, 4, 5 or
//! 24 bits at odd places. So each is declared once, as the specification prints it: name, first
//! bit, width, access. Bit 0 is the most significant of the first byte. Reading, writing and the
//! table that tests walk through all follow from that declaration.

/// Who may change a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read-only: what a Set carries there is ignored.
    Ro,
    /// Read-write.
    Rw,
}

/// One component of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The component, as the structure's field is called.
    pub name: &'static str,
    /// First bit, from the most significant of the first byte.
    pub bit: usize,
    /// Width in bits, 1 to 128.
    pub bits: usize,
    /// Who may change it.
    pub access: Access,
}

impl Field {
    /// The component's value in `bytes`.
    ///
    /// # Panics
    /// If it lies behind their end.
    pub fn load(&self, bytes: &[u8]) -> u128 {
        load(bytes, self.bit, self.bits)
    }

    /// Puts the low bits of `value` into `bytes`, and leaves everything else in them alone.
    ///
    /// # Panics
    /// If the component lies behind their end.
    pub fn store(&self, bytes: &mut [u8], value: u128) {
        store(bytes, self.bit, self.bits, value);
    }

    /// The greatest value.
    pub fn max(&self) -> u128 {
        u128::MAX >> (128 - self.bits)
    }
}

pub(crate) fn load(bytes: &[u8], bit: usize, bits: usize) -> u128 {
    let end = bit + bits;
    let mut value = 0;
    let mut at = bit;
    while at < end {
        let n = (8 - at % 8).min(end - at);
        let byte = bytes[at / 8] >> (8 - at % 8 - n);
        value = value << n | u128::from(byte) & ((1 << n) - 1);
        at += n;
    }
    value
}

pub(crate) fn store(bytes: &mut [u8], bit: usize, bits: usize, value: u128) {
    let end = bit + bits;
    let mut at = bit;
    while at < end {
        let n = (8 - at % 8).min(end - at);
        let shift = 8 - at % 8 - n;
        let mask = ((1u16 << n) - 1) as u8;
        let part = (value >> (end - at - n)) as u8 & mask;
        let byte = &mut bytes[at / 8];
        *byte = *byte & !(mask << shift) | part << shift;
        at += n;
    }
}

/// What a component's bits become in Rust.
pub(crate) trait Bits: Copy {
    fn from_bits(bits: u128) -> Self;
    fn to_bits(self) -> u128;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Bits for $type {
            fn from_bits(bits: u128) -> $type {
                bits as $type
            }

            fn to_bits(self) -> u128 {
                u128::from(self)
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, u128);

impl Bits for bool {
    fn from_bits(bits: u128) -> bool {
        bits != 0
    }

    fn to_bits(self) -> u128 {
        u128::from(self)
    }
}

/// Declares an attribute: a structure, `parse`, `emit` and `FIELDS`, all from one table.
macro_rules! attribute {
    ($(#[$meta:meta])* struct $name:ident[$len:expr] {
        $($(#[$field_meta:meta])* $field:ident: $type:ty = $bit:literal, $bits:literal, $access:ident;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl $name {
            /// The components, in the order of the wire. What lies between them is reserved.
            pub const FIELDS: &'static [$crate::bits::Field] = &[
                $($crate::bits::Field {
                    name: stringify!($field),
                    bit: $bit,
                    bits: $bits,
                    access: $crate::bits::Access::$access,
                },)*
            ];

            /// Reads all components. Reserved bits are not looked at.
            pub fn parse(bytes: &[u8; $len]) -> $name {
                $name {
                    $($field: $crate::bits::Bits::from_bits($crate::bits::load(bytes, $bit, $bits)),)*
                }
            }

            /// Writes all components; everything else becomes zero. A value too wide for its
            /// component loses its high bits.
            pub fn emit(&self, bytes: &mut [u8; $len]) {
                bytes.fill(0);
                $($crate::bits::store(bytes, $bit, $bits, $crate::bits::Bits::to_bits(self.$field));)*
            }
        }
    };
}

pub(crate) use attribute;
