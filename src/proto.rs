//! The generated wire types, and the `Debug` of those that carry secrets: sizes only, never bytes.

#![allow(missing_docs, clippy::pedantic, clippy::large_enum_variant)]

use std::fmt;

/// Package `pannier.v1`.
pub mod v1 {
    tonic::include_proto!("pannier.v1");
}

/// All descriptors, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pannier.bin"));

impl fmt::Debug for v1::Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Record({} bytes)", self.value.len())
    }
}

impl fmt::Debug for v1::Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fragment({} of {} bytes)", self.data.len(), self.total)
    }
}

impl fmt::Debug for v1::BlobChunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobChunk({} bytes)", self.data.len())
    }
}
