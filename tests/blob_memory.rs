//! A blob of any size goes through in bounded memory, and at no more than the rate that leaves the others room.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{self, fetch_blob_response, save_blob_request::Part};
use sha2::{Digest as _, Sha256};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    blob::{CHUNK, content, header},
};

const MIB: u64 = 1 << 20;

/// VmRSS and VmHWM in bytes.
fn memory(pid: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let of = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    };
    (of("VmRSS:"), of("VmHWM:"))
}

async fn through(mib: u64, rate: &str) {
    let valkey = Valkey::start(ValkeyOptions::default().set("appendonly", "no"));
    let sidecar = Sidecar::start(Options::with(&valkey).arg("--bulk-rate").arg(rate)).await;
    let blobs = sidecar.blobs();
    // Everything that is set up once is.
    blobs.save("warm", &content(1, 2 << 20)).await.unwrap();
    blobs.fetch("warm").await.unwrap();
    let (before, _) = memory(sidecar.pid());

    let (begin, size) = (Instant::now(), mib * MIB);
    let (mut hash, data) = (Sha256::new(), content(7, CHUNK + 4096));
    let saving = blobs.begin(header("large")).await;
    let chunk_of = |n: u64| {
        let from = usize::try_from(n % 4096).unwrap();
        bytes::Bytes::copy_from_slice(&data[from..from + CHUNK])
    };
    for n in 0..size / CHUNK as u64 {
        let data = chunk_of(n);
        hash.update(&data);
        assert!(saving.send(Part::Chunk(v1::BlobChunk { data })).await);
    }
    let sha256: Vec<u8> = hash.finalize().to_vec();
    saving.send(Part::Finish(v1::SaveBlobFinish { size, sha256: sha256.clone().into() })).await;
    saving.end().await.unwrap();
    let saved = begin.elapsed();

    let begin = Instant::now();
    let request = v1::FetchBlobRequest { blob: "large".into(), ..Default::default() };
    let mut stream = blobs.raw.clone().fetch_blob(request).await.unwrap().into_inner();
    let (mut received, mut hash, mut finished) = (0, Sha256::new(), false);
    while let Some(message) = stream.message().await.unwrap() {
        match message.part.unwrap() {
            fetch_blob_response::Part::Chunk(chunk) => {
                received += chunk.data.len() as u64;
                hash.update(&chunk.data);
            }
            fetch_blob_response::Part::Finish(_) => finished = true,
            fetch_blob_response::Part::Info(_) => {}
        }
    }
    assert!(finished && received == size && hash.finalize()[..] == sha256[..]);
    let fetched = begin.elapsed();
    let (_, peak) = memory(sidecar.pid());
    let grown = peak.saturating_sub(before) / MIB;
    eprintln!(
        "{mib} MiB: saved in {saved:.1?}, fetched in {fetched:.1?}; resident {} MiB, at most {grown} MiB more",
        before / MIB
    );
    assert!(grown <= 64, "the resident memory grew by {grown} MiB");
}

/// waha#2090: 600 MB at the default rate; without PANNIER_SOAK a sixth of it, as fast as it goes.
#[tokio::test]
async fn hundreds_of_megabytes_go_through_in_bounded_memory() {
    if std::env::var_os("PANNIER_SOAK").is_some() {
        through(600, "32MiB").await;
    } else {
        through(100, "0").await;
    }
}

/// A client that is silent for half a minute is given up, and its parts with it.
#[tokio::test]
async fn a_silent_client_is_given_up() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let saving = sidecar.blobs().begin(header("bot")).await;
    let begin = Instant::now();
    let answer = saving.answer.await.unwrap().unwrap_err();
    assert_eq!((answer.code, answer.reason.as_str()), (tonic::Code::DeadlineExceeded, "DEADLINE_EXCEEDED"));
    assert!((28..45).contains(&begin.elapsed().as_secs()));
}

#[tokio::test]
async fn saves_together_and_fetches_together_keep_to_the_bulk_rate() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey).arg("--bulk-rate").arg("4MiB")).await;
    let blobs = sidecar.blobs();
    let begin = Instant::now();
    let (one, two) = (content(1, 5 << 20), content(2, 4 << 20));
    let (one, two) = tokio::join!(blobs.save("one", &one), blobs.save("two", &two));
    one.and(two).unwrap();
    // 9 MiB, of which one goes ahead.
    assert!(begin.elapsed() > Duration::from_millis(1900), "{:?}", begin.elapsed());
    let begin = Instant::now();
    let (one, two) = tokio::join!(blobs.fetch("one"), blobs.fetch("two"));
    assert_eq!(one.unwrap().len() + two.unwrap().len(), 9 << 20);
    assert!(begin.elapsed() > Duration::from_millis(1900), "{:?}", begin.elapsed());
}
