//! The bytes of a character that the end of a chunk cut (transcript contract 1, `tail`).

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One to three bytes that begin a UTF-8 character, or none. Lower-case hex in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tail {
    bytes: [u8; 3],
    len: u8,
}

impl Tail {
    /// `bytes`, when they can be the start of a character; else none of them.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let cut = matches!(std::str::from_utf8(bytes), Err(error) if error.valid_up_to() == 0 && error.error_len().is_none());
        let mut tail = Self::default();
        if cut {
            for (slot, byte) in tail.bytes.iter_mut().zip(bytes) {
                *slot = *byte;
                tail.len += 1;
            }
        }
        tail
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many more bytes its character needs.
    pub(crate) fn missing(&self) -> usize {
        let width = match self.bytes().first() {
            None => 0,
            Some(0xF0..) => 4,
            Some(0xE0..) => 3,
            Some(_) => 2,
        };
        width - self.bytes().len()
    }
}

impl Serialize for Tail {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hex: String = self.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&hex)
    }
}

impl<'de> Deserialize<'de> for Tail {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let lower = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let bytes: Option<Vec<u8>> = text
            .as_bytes()
            .chunks(2)
            .map(|pair| std::str::from_utf8(pair).ok().filter(|_| pair.len() == 2))
            .map(|pair| u8::from_str_radix(pair?, 16).ok())
            .collect();
        let tail = bytes.filter(|bytes| lower && bytes.len() <= 3).map(|bytes| Self::new(&bytes));
        tail.filter(|tail| !tail.is_empty()).ok_or_else(|| {
            serde::de::Error::custom("a tail is the start of one UTF-8 character in lower-case hex")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Tail;

    #[test]
    fn only_the_start_of_a_character_is_one() {
        for (bytes, len) in [
            (&[0xE2, 0x82][..], 2),
            (&[0xC3], 1),
            (&[0xF0, 0x9F, 0x9A], 3),
            (&[0xED, 0xA0], 0),
            (&[0xE0, 0x80], 0),
            (&[0x80], 0),
            (b"a", 0),
            (&[], 0),
        ] {
            assert_eq!(Tail::new(bytes).bytes().len(), len, "{bytes:?}");
        }
    }

    #[test]
    fn hex_in_json() {
        let tail = Tail::new(&[0xE2, 0x9B]);
        assert_eq!(serde_json::to_string(&tail).unwrap(), "\"e29b\"");
        assert_eq!(serde_json::from_str::<Tail>("\"e29b\"").unwrap(), tail);
        assert_eq!((tail.missing(), Tail::new(&[0xF0]).missing(), Tail::default().missing()), (1, 3, 0));
        for refused in
            ["\"\"", "\"e\"", "\"E29B\"", "\"e282ac\"", "\"61\"", "\"+f\"", "\"f09f9a80\"", "\"éé\"", "7"]
        {
            assert!(serde_json::from_str::<Tail>(refused).is_err(), "{refused}");
        }
    }
}
