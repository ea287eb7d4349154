//! The index of a blob: everything about it but manifests and parts.

use std::collections::BTreeMap;

use redis::Value;

use super::{ERROR_KEEP, name::KIND};
use crate::{
    error::Result,
    owner::{
        catalog::Listed,
        reply::{pairs, parse_number},
    },
};

/// What a generation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not visible yet; must go on until its instant.
    Uploading,
    /// One of the live incarnation.
    Kept,
    /// One of an archive.
    Archived,
    /// Has fallen out; its readers have it until its instant.
    Dropped,
    /// To be collected.
    Garbage,
}

/// One generation.
#[derive(Clone, Debug)]
pub struct Generation {
    pub state: State,
    pub incarnation: u64,
    /// The instant that belongs to the state, ms.
    pub at_ms: u64,
    pub parts: u32,
    /// Bytes as stored.
    pub stored: u64,
    /// Bytes of the content.
    pub size: u64,
    pub saved_ms: u64,
}

/// A soft-deleted incarnation.
#[derive(Clone, Copy, Debug)]
pub struct Archive {
    pub incarnation: u64,
    pub purge_ms: u64,
    pub deleted_ms: u64,
    /// The generation that was the current one.
    pub current: u64,
}

/// The index as it was read.
#[derive(Clone, Default)]
pub struct BlobIndex {
    pub wrapped_key: Vec<u8>,
    pub sealed_name: Vec<u8>,
    /// 0: none is live.
    pub incarnation: u64,
    /// 0: none.
    pub current: u64,
    pub generations: BTreeMap<u64, Generation>,
    /// Oldest first.
    pub archives: Vec<Archive>,
    pub sealed_error: Vec<u8>,
    pub error_ms: u64,
}

impl BlobIndex {
    /// `None` when there is none.
    pub fn parse(value: Value) -> Result<Option<Self>> {
        let fields = pairs(value)?;
        if fields.is_empty() {
            return Ok(None);
        }
        let (mut index, mut list, mut archives) = (Self::default(), String::new(), BTreeMap::new());
        for (field, value) in fields {
            let number = || parse_number(&value).unwrap_or(0);
            match field.as_slice() {
                b"k" => index.wrapped_key = value,
                b"nm" => index.sealed_name = value,
                b"i" => index.incarnation = number(),
                b"cur" => index.current = number(),
                b"al" => list = String::from_utf8_lossy(&value).into_owned(),
                b"e" => index.sealed_error = value,
                b"et" => index.error_ms = number(),
                [b'g', b':', id @ ..] => {
                    if let Some((id, generation)) = parse_number(id).zip(Generation::unpack(&value)) {
                        index.generations.insert(id, generation);
                    }
                }
                [b'a', b':', id @ ..] => {
                    if let Some((id, archive)) = parse_number(id).zip(Archive::unpack(&value)) {
                        archives.insert(id, Archive { incarnation: id, ..archive });
                    }
                }
                // A field of a later version.
                _ => {}
            }
        }
        index.archives =
            list.split(',').filter_map(|one| archives.get(&one.parse().ok()?).copied()).collect();
        Ok(Some(index))
    }

    /// The current generation.
    pub fn live(&self) -> Option<(u64, &Generation)> {
        self.generations.get(&self.current).map(|generation| (self.current, generation))
    }

    /// Until when a generation is there, ms; 0: nothing ends it.
    pub fn gone_ms(&self, generation: &Generation) -> u64 {
        match generation.state {
            State::Dropped => generation.at_ms,
            State::Archived => self
                .archives
                .iter()
                .find(|archive| archive.incarnation == generation.incarnation)
                .map_or(0, |archive| archive.purge_ms),
            _ => 0,
        }
    }

    /// When something of it runs out next, ms.
    pub fn due_ms(&self) -> Option<u64> {
        let generations = self.generations.values().filter_map(|generation| match generation.state {
            State::Uploading | State::Dropped => Some(generation.at_ms + 1),
            State::Garbage => Some(1),
            State::Kept | State::Archived => None,
        });
        let archives = self.archives.iter().map(|archive| archive.purge_ms);
        let error = (!self.sealed_error.is_empty()).then(|| self.error_ms + ERROR_KEEP + 1);
        generations.chain(archives).chain(error).min()
    }

    /// Nothing is left of it.
    pub fn is_empty(&self) -> bool {
        self.generations.is_empty() && self.archives.is_empty() && self.sealed_error.is_empty()
    }
}

impl Listed for BlobIndex {
    const KIND: &'static str = KIND;
    const KEY: &'static str = "b";

    fn parse(fields: Value) -> Result<Option<Self>> {
        Self::parse(fields)
    }

    fn sealed_name(&self) -> &[u8] {
        &self.sealed_name
    }
}

impl Generation {
    /// As the scripts pack it: `>c1I8I8I4I8I8I8c16c16`.
    fn unpack(packed: &[u8]) -> Option<Self> {
        let (state, mut rest) = packed.split_first()?;
        Some(Self {
            state: match state {
                b'U' => State::Uploading,
                b'K' => State::Kept,
                b'A' => State::Archived,
                b'D' => State::Dropped,
                b'X' => State::Garbage,
                _ => return None,
            },
            incarnation: take_u64(&mut rest)?,
            at_ms: take_u64(&mut rest)?,
            parts: take_u32(&mut rest)?,
            stored: take_u64(&mut rest)?,
            size: take_u64(&mut rest)?,
            saved_ms: take_u64(&mut rest)?,
        })
    }
}

impl Archive {
    /// `>I8I8I8`
    fn unpack(mut packed: &[u8]) -> Option<Self> {
        Some(Self {
            incarnation: 0,
            purge_ms: take_u64(&mut packed)?,
            deleted_ms: take_u64(&mut packed)?,
            current: take_u64(&mut packed)?,
        })
    }
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    *bytes = rest;
    Some(u64::from_be_bytes(*number))
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    Some(u32::from_be_bytes(*number))
}
