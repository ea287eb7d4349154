//! What is inside a session record: its type and id once more, so that a listing can name what it opened and check it.

use super::{context::take_lp, lp};

/// How a client gave a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ValueKind {
    /// Bytes as they are.
    Bytes = 0,
    /// JSON in UTF-8.
    Json = 1,
    /// Text in UTF-8.
    Text = 2,
}

impl TryFrom<u8> for ValueKind {
    type Error = u8;

    fn try_from(kind: u8) -> Result<Self, u8> {
        match kind {
            0 => Ok(Self::Bytes),
            1 => Ok(Self::Json),
            2 => Ok(Self::Text),
            unknown => Err(unknown),
        }
    }
}

/// `lp(type) ‖ lp(id) ‖ kind ‖ value`.
pub struct RecordPayload;

impl RecordPayload {
    /// Frames a value.
    pub fn encode(ty: &str, id: &str, kind: u8, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(9 + ty.len() + id.len() + value.len());
        lp(&mut out, ty.as_bytes());
        lp(&mut out, id.as_bytes());
        out.push(kind);
        out.extend_from_slice(value);
        out
    }

    /// Type, id, kind and value of a framed one; `None` when it is none.
    pub fn decode(mut bytes: &[u8]) -> Option<(&str, &str, u8, &[u8])> {
        let ty = str::from_utf8(take_lp(&mut bytes)?).ok()?;
        let id = str::from_utf8(take_lp(&mut bytes)?).ok()?;
        let (kind, value) = bytes.split_first()?;
        Some((ty, id, *kind, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_as_it_went_in() {
        let framed = RecordPayload::encode("session", "1.0", ValueKind::Text as u8, "né".as_bytes());
        assert_eq!(RecordPayload::decode(&framed), Some(("session", "1.0", 2, "né".as_bytes())));
        let empty = RecordPayload::encode("", "", 0, b"");
        assert_eq!(RecordPayload::decode(&empty), Some(("", "", 0, &b""[..])));
    }

    #[test]
    fn what_is_cut_or_no_text_is_refused() {
        let framed = RecordPayload::encode("pre-key", "7", 0, b"");
        for len in 0..framed.len() {
            assert_eq!(RecordPayload::decode(&framed[..len]), None, "{len}");
        }
        assert_eq!(RecordPayload::decode(b"\0\0\0\x01\xff\0\0\0\0\0"), None);
    }
}
