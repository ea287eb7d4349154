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

impl fmt::Debug for v1::JobSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobSpec({} bytes)", self.payload.len())
    }
}

impl fmt::Debug for v1::WorkJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkJob({}, fence {}, {} bytes)", self.number, self.fence, self.payload.len())
    }
}

impl fmt::Debug for v1::WorkSettle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.lease.as_ref().map_or(0, |lease| lease.number);
        write!(f, "WorkSettle({number}, {} bytes)", self.result.len())
    }
}

impl fmt::Debug for v1::WorkProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkProgress({} bytes)", self.progress.len())
    }
}

impl fmt::Debug for v1::Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Job({}, state {}, {} bytes)", self.number, self.state, self.payload.len())
    }
}

impl fmt::Debug for v1::ack_jobs_request::Ack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ack({}, {} bytes)", self.number, self.result.len())
    }
}

impl fmt::Debug for v1::ClaimResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ClaimResponse(outcome {}, fence {}, {} bytes)",
            self.outcome,
            self.fence,
            self.result.len()
        )
    }
}

impl fmt::Debug for v1::CompleteClaimRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompleteClaimRequest({} bytes)", self.result.len())
    }
}

impl fmt::Debug for v1::ConversationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConversationState(version {}, {} fields)", self.version, self.fields.len())
    }
}

impl fmt::Debug for v1::AdvanceRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdvanceRequest({} to set, {} to unset)", self.set.len(), self.unset.len())
    }
}
