//! Between a content and its parts: cut into segments of 64 KiB, sealed, four to a part; and back, each proven before it is
//! given out. What is held at a time is a part and a segment, whatever the size.

use sha2::{Digest as _, Sha256};

use super::{keys::BlobKeys, manifest::corrupt, name::BlobName};
use crate::{
    crypto::{PREAMBLE, SEAL_OVERHEAD, SEGMENT, SegmentOpener, SegmentSealer},
    error::Result,
};

/// Segments of a part.
const PART_SEGMENTS: u64 = 4;
/// Plaintext of a part, in bytes.
pub const PART: usize = SEGMENT * 4;

/// How a content of some size is laid out.
#[derive(Clone, Copy)]
pub struct Layout {
    size: u64,
    segments: u64,
}

impl Layout {
    /// Of a content of `size` bytes. An empty one has one empty segment, which proves that it is.
    pub fn of(size: u64) -> Self {
        Self { size, segments: size.div_ceil(SEGMENT as u64).max(1) }
    }

    /// How many parts.
    pub fn parts(self) -> u32 {
        u32::try_from(self.segments.div_ceil(PART_SEGMENTS)).unwrap_or(u32::MAX)
    }

    /// Bytes as stored.
    pub fn stored(self) -> u64 {
        PREAMBLE as u64 + self.size + self.segments * SEAL_OVERHEAD as u64
    }

    /// The sealed segments of a part: length of each, and whether it is the last of all.
    fn part(self, number: u32) -> impl Iterator<Item = (usize, bool)> {
        let first = u64::from(number) * PART_SEGMENTS;
        (first..self.segments.min(first + PART_SEGMENTS)).map(move |at| {
            let last = at + 1 == self.segments;
            let rest = self.size - at * SEGMENT as u64;
            let plain = usize::try_from(rest).map_or(SEGMENT, |rest| rest.min(SEGMENT));
            (plain + SEAL_OVERHEAD, last)
        })
    }
}

/// Seals a content as it comes.
pub struct Packer {
    sealer: SegmentSealer,
    /// Plaintext of the segment that is not sealed yet: only at the end is it known whether it is the last.
    pending: Vec<u8>,
    part: Vec<u8>,
    segments: u64,
    size: u64,
    hash: Sha256,
}

impl Packer {
    /// Begins the body of a generation.
    pub fn new(keys: &BlobKeys, name: &BlobName, generation: u64) -> Self {
        let sealer = keys.body.sealer(keys.epoch, generation, &name.generation_context(generation));
        let part = sealer.preamble().to_vec();
        Self { sealer, pending: Vec::with_capacity(SEGMENT), part, segments: 0, size: 0, hash: Sha256::new() }
    }

    /// Bytes so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Takes more of the content; gives the parts that are full now.
    pub fn push(&mut self, mut data: &[u8]) -> Vec<Vec<u8>> {
        self.hash.update(data);
        self.size += data.len() as u64;
        let mut full = Vec::new();
        while !data.is_empty() {
            if self.pending.len() == SEGMENT {
                self.seal(false);
                if self.segments.is_multiple_of(PART_SEGMENTS) {
                    full.push(std::mem::replace(
                        &mut self.part,
                        Vec::with_capacity(PART + 4 * SEAL_OVERHEAD),
                    ));
                }
            }
            let (now, later) = data.split_at(data.len().min(SEGMENT - self.pending.len()));
            self.pending.extend_from_slice(now);
            data = later;
        }
        full
    }

    fn seal(&mut self, last: bool) {
        self.sealer.seal(&self.pending, last, &mut self.part);
        self.pending.clear();
        self.segments += 1;
    }

    /// Ends it: the last part, and the hash of all.
    pub fn finish(mut self) -> (Vec<u8>, [u8; 32]) {
        self.seal(true);
        (self.part, self.hash.finalize().into())
    }
}

/// Opens the parts of a body, in order.
pub struct Unpacker {
    opener: Option<SegmentOpener>,
    layout: Layout,
    next: u32,
    hash: Sha256,
}

impl Unpacker {
    /// For the body of a manifest that says `size`.
    pub fn new(layout: Layout) -> Self {
        Self { opener: None, layout, next: 0, hash: Sha256::new() }
    }

    /// The plaintext of the next part, proven.
    pub fn open(
        &mut self,
        keys: &BlobKeys,
        name: &BlobName,
        generation: u64,
        part: &[u8],
    ) -> Result<Vec<u8>> {
        let mut rest = part;
        if self.opener.is_none() {
            let Some((preamble, segments)) = part.split_at_checked(PREAMBLE) else { return Err(altered()) };
            let context = name.generation_context(generation);
            self.opener = Some(keys.body.opener(generation, &context, preamble).map_err(|_| altered())?);
            rest = segments;
        }
        let Some(opener) = &mut self.opener else { return Err(altered()) };
        let mut plaintext = Vec::with_capacity(rest.len());
        for (length, last) in self.layout.part(self.next) {
            let Some((segment, behind)) = rest.split_at_checked(length) else { return Err(altered()) };
            opener.open(segment, last, &mut plaintext).map_err(|_| altered())?;
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(altered());
        }
        self.next += 1;
        self.hash.update(&plaintext);
        Ok(plaintext)
    }

    /// The hash of all that was given out.
    pub fn finish(self) -> [u8; 32] {
        self.hash.finalize().into()
    }
}

fn altered() -> crate::error::Error {
    corrupt("a part was altered, cut or moved")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::{Keyring, SharedKeyring};

    fn keys(name: &BlobName, keyring: &SharedKeyring) -> BlobKeys {
        BlobKeys::unwrap(keyring, name, &BlobKeys::propose(&keyring.current(), name)).unwrap()
    }

    fn pack(keys: &BlobKeys, name: &BlobName, content: &[u8], chunk: usize) -> Vec<Vec<u8>> {
        let mut packer = Packer::new(keys, name, 7);
        let mut parts: Vec<_> = content.chunks(chunk).flat_map(|chunk| packer.push(chunk)).collect();
        parts.push(packer.finish().0);
        parts
    }

    #[test]
    fn any_size_in_any_chunks_is_laid_out_as_foretold_and_comes_back() {
        let keyring = SharedKeyring::fixed(Keyring::generate().0);
        let name = BlobName::new(&keyring.current(), "default".into(), "bot".into());
        let keys = keys(&name, &keyring);
        for size in [0, 1, SEGMENT - 1, SEGMENT, SEGMENT + 1, PART - 1, PART, PART + 1, 5 * PART / 2] {
            let content: Vec<u8> = (0..size).map(|at| u8::try_from(at % 251).unwrap()).collect();
            for chunk in [997, SEGMENT, PART] {
                let parts = pack(&keys, &name, &content, chunk);
                let layout = Layout::of(size as u64);
                assert_eq!(parts.len(), layout.parts() as usize, "{size} in {chunk}");
                assert_eq!(parts.iter().map(Vec::len).sum::<usize>() as u64, layout.stored());
                let mut unpacker = Unpacker::new(layout);
                let opened: Vec<u8> =
                    parts.iter().flat_map(|part| unpacker.open(&keys, &name, 7, part).unwrap()).collect();
                assert!(opened == content, "{size} in {chunk}");
                assert_eq!(unpacker.finish(), <[u8; 32]>::from(Sha256::digest(&content)));
            }
        }
    }

    #[test]
    fn a_body_that_was_cut_swapped_or_moved_does_not_open() {
        let keyring = SharedKeyring::fixed(Keyring::generate().0);
        let name = BlobName::new(&keyring.current(), "default".into(), "bot".into());
        let other = BlobName::new(&keyring.current(), "default".into(), "other".into());
        let keys = keys(&name, &keyring);
        let content = vec![3; 3 * PART];
        let parts = pack(&keys, &name, &content, PART);
        let open = |layout: Layout, name: &BlobName, generation, parts: &[&[u8]]| {
            let mut unpacker = Unpacker::new(layout);
            parts.iter().all(|part| unpacker.open(&keys, name, generation, part).is_ok())
        };
        let all: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let layout = Layout::of(content.len() as u64);
        assert!(open(layout, &name, 7, &all));
        assert!(!open(layout, &name, 8, &all), "another generation");
        assert!(!open(layout, &other, 7, &all), "another blob");
        assert!(!open(layout, &name, 7, &[all[0], all[2], all[1]]), "swapped");
        assert!(!open(layout, &name, 7, &[all[0], all[1], &all[2][..all[2].len() - 1]]), "cut");
        assert!(!open(Layout::of(2 * PART as u64), &name, 7, &all[..2]), "without its end");
        let mut flipped = parts[1].clone();
        flipped[1000] ^= 1;
        assert!(!open(layout, &name, 7, &[all[0], &flipped]), "altered");
    }
}
