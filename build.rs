//! Compiles `proto/` with protox (no protoc needed) and keeps the descriptor set for reflection.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;

/// Messages that carry secrets: their `Debug` is written by hand and shows sizes only.
const SECRET: &[&str] = &[
    ".pannier.v1.Record",
    ".pannier.v1.Fragment",
    ".pannier.v1.BlobChunk",
    ".pannier.v1.JobSpec",
    ".pannier.v1.WorkJob",
    ".pannier.v1.WorkSettle",
    ".pannier.v1.WorkProgress",
    ".pannier.v1.Job",
    ".pannier.v1.AckJobsRequest.Ack",
    ".pannier.v1.ClaimResponse",
    ".pannier.v1.CompleteClaimRequest",
    ".pannier.v1.ConversationState",
    ".pannier.v1.AdvanceRequest",
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from("proto");
    println!("cargo::rerun-if-changed=proto");
    let mut files: Vec<PathBuf> = fs::read_dir(root.join("pannier/v1"))?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|ext| ext == "proto"));
    files.sort();

    let descriptors = protox::compile(&files, [&root])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("pannier.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .bytes(".")
        .skip_debug(SECRET.to_vec())
        // What is said of a message is not said of the enums in it.
        .type_attribute(".pannier.v1.ClaimResponse.Outcome", "#[derive(Debug)]")
        .compile_fds(descriptors)?;
    Ok(())
}
