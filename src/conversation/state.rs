//! What is sealed of a conversation: its id once more, the step and the fields, packed.

use std::collections::BTreeMap;

/// The step of a conversation that is idle, or was begun without one.
pub const IDLE: &str = "idle";

/// Step and fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    pub step: String,
    pub fields: BTreeMap<String, Vec<u8>>,
}

impl Content {
    /// Of a conversation that is not there.
    pub fn idle() -> Self {
        Self { step: IDLE.to_owned(), fields: BTreeMap::new() }
    }

    /// Bytes of names and values.
    pub fn size(&self) -> usize {
        self.fields.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// What is sealed: each part after its length, lengths as LEB128.
    pub fn encode(&self, id: &str) -> Vec<u8> {
        let mut out =
            Vec::with_capacity(id.len() + self.step.len() + self.size() + 4 * self.fields.len() + 6);
        part(&mut out, id.as_bytes());
        part(&mut out, self.step.as_bytes());
        for (name, value) in &self.fields {
            part(&mut out, name.as_bytes());
            part(&mut out, value);
        }
        out
    }

    /// The id and what it is the content of; `None` when it is neither.
    pub fn decode(mut bytes: &[u8]) -> Option<(String, Self)> {
        let id = text(&mut bytes)?;
        let step = text(&mut bytes)?;
        let mut fields = BTreeMap::new();
        while !bytes.is_empty() {
            let name = text(&mut bytes)?;
            fields.insert(name, take(&mut bytes)?.to_vec());
        }
        Some((id, Self { step, fields }))
    }

    /// The id alone: of a plaintext that a walk has found.
    pub fn id_of(mut bytes: &[u8]) -> Option<&str> {
        std::str::from_utf8(take(&mut bytes)?).ok()
    }
}

fn part(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut len = bytes.len();
    while len >= 0x80 {
        out.push(0x80 | u8::try_from(len & 0x7f).unwrap_or(0));
        len >>= 7;
    }
    out.push(u8::try_from(len).unwrap_or(0));
    out.extend_from_slice(bytes);
}

fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (mut len, mut shift) = (0_usize, 0);
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        len |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
        shift += 7;
        if shift > 21 {
            return None;
        }
    }
    let (part, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(part)
}

fn text(bytes: &mut &[u8]) -> Option<String> {
    String::from_utf8(take(bytes)?.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_as_it_went_in() {
        let mut content = Content::idle();
        for len in [0, 1, 127, 128, 16_383, 16_384, 200_000] {
            content.fields.insert(format!("field {len} ñ"), vec![7; len]);
        }
        let encoded = content.encode("chat é");
        assert_eq!(Content::decode(&encoded), Some(("chat é".to_owned(), content)));
        assert_eq!(Content::id_of(&encoded), Some("chat é"));
    }

    #[test]
    fn what_is_cut_is_refused() {
        let mut content = Content { step: "ask".into(), fields: BTreeMap::new() };
        content.fields.insert("name".into(), b"value".to_vec());
        let encoded = content.encode("chat");
        for len in 0..encoded.len() {
            assert!(Content::decode(&encoded[..len]).is_none_or(|(_, cut)| cut.fields.is_empty()), "{len}");
        }
        assert_eq!(Content::decode(b"\xff\xff\xff\xff\x7f"), None);
    }
}
