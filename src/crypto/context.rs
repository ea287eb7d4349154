//! The place a sealed thing belongs to, as bytes that no other place can have.

/// Appends `lp(part)`: the length as u32 big endian, then the bytes. So joined parts cannot be cut in another way.
///
/// Callers bound their parts (ids are ≤ 512 bytes, values ≤ 16 MiB); a length that does not fit a u32 never gets here.
pub fn lp(out: &mut Vec<u8>, part: &[u8]) {
    debug_assert!(u32::try_from(part.len()).is_ok(), "a part of 4 GiB");
    #[allow(clippy::cast_possible_truncation)]
    out.extend_from_slice(&(part.len() as u32).to_be_bytes());
    out.extend_from_slice(part);
}

/// Takes one `lp` part off the front of `bytes`.
pub fn take_lp<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (part, rest) = rest.split_at_checked(u32::from_be_bytes(*len) as usize)?;
    *bytes = rest;
    Some(part)
}

/// What a sealed thing is bound to: `lp(kind) ‖ lp(p1) ‖ …`, the additional data of its envelope.
///
/// A missing part is the empty string; a number is written in decimal ASCII. Holds names, so it has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Context(pub(super) Vec<u8>);

impl Context {
    /// The context of `kind` with its parts, in the order of the table in the storage design.
    pub fn new(kind: &str, parts: &[&[u8]]) -> Self {
        let len = parts.iter().map(|part| part.len() + 4).sum::<usize>();
        let mut bytes = Vec::with_capacity(4 + kind.len() + len);
        lp(&mut bytes, kind.as_bytes());
        let mut context = Self(bytes);
        context.extend(parts);
        context
    }

    /// The same context with more parts: an owner's context makes those of its records.
    #[must_use]
    pub fn with(&self, parts: &[&[u8]]) -> Self {
        let len = parts.iter().map(|part| part.len() + 4).sum::<usize>();
        let mut bytes = Vec::with_capacity(self.0.len() + len);
        bytes.extend_from_slice(&self.0);
        let mut context = Self(bytes);
        context.extend(parts);
        context
    }

    fn extend(&mut self, parts: &[&[u8]]) {
        for part in parts {
            lp(&mut self.0, part);
        }
    }

    /// The bytes that go into the additional data.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cannot_be_cut_in_another_way() {
        assert!(Context::new("session", &[b"ab", b"c"]) != Context::new("session", &[b"a", b"bc"]));
        assert!(Context::new("session", &[b"a"]) != Context::new("session", &[b"a", b""]));
        assert_eq!(Context::new("k", &[b"xy"]).as_bytes(), b"\0\0\0\x01k\0\0\0\x02xy");
        assert!(Context::new("k", &[b"a"]).with(&[b"b"]) == Context::new("k", &[b"a", b"b"]));
    }

    #[test]
    fn a_part_longer_than_what_is_there_is_refused() {
        for bytes in [&b""[..], b"\0\0\0", b"\0\0\0\x02a", b"\xff\xff\xff\xffabc"] {
            assert_eq!(take_lp(&mut &*bytes), None);
        }
    }
}
