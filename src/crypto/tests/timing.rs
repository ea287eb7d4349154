//! What sealing costs beside bare AES-256-GCM. `cargo test --release --lib crypto::tests::timing -- --ignored --nocapture`

use std::time::Instant;

use aes_gcm::{Aes256Gcm, KeyInit as _, Nonce, aead::AeadInOut as _};

use super::{counting, record_keys};
use crate::crypto::Context;

#[test]
#[ignore = "prints timings"]
#[allow(clippy::print_stdout)]
fn seal_and_open_of_seven_kilobytes() {
    let json: Vec<u8> = (0..170u32)
        .flat_map(|n| format!(r#"{{"index":{n},"key":"{:032x}"}}"#, n * n * 7919).into_bytes())
        .collect();
    let noise: Vec<u8> = (0..300).flat_map(|_| crate::crypto::random_salt()).collect();
    let ctx = Context::new("session", &[b"default", b"bot-1", b"session", b"15551234567.0"]);
    let keys = record_keys();
    let time = |what: &str, mut run: Box<dyn FnMut() + '_>| {
        let mut best = f64::MAX;
        for _ in 0..20 {
            let start = Instant::now();
            (0..500).for_each(|_| run());
            best = best.min(start.elapsed().as_secs_f64() / 500.0 * 1e6);
        }
        println!("{what:<28} {best:8.2} µs");
    };
    for (name, body) in [("json", &json), ("noise", &noise)] {
        let body = &body[..7000.min(body.len())];
        let mut out = Vec::new();
        keys.seal(1, 7, &ctx, body, &mut out);
        println!("{name}: {} bytes, sealed {}", body.len(), out.len());
        let sealed = out.clone();
        time(
            "  seal",
            Box::new(|| {
                out.clear();
                keys.seal(1, 7, &ctx, body, &mut out);
            }),
        );
        time(
            "  open",
            Box::new(|| {
                keys.open(&ctx, &sealed).ok().unwrap();
            }),
        );
        let cipher = Aes256Gcm::new_from_slice(&counting::<32>(0)).unwrap();
        let mut buffer = body.to_vec();
        time(
            "  bare AES-256-GCM",
            Box::new(|| {
                cipher.encrypt_inout_detached(&Nonce::default(), b"", buffer.as_mut_slice().into()).unwrap();
            }),
        );
        let mut frame = Vec::with_capacity(body.len() * 2);
        let mut zstd = zstd::bulk::Compressor::new(1).unwrap();
        time(
            "  bare zstd 1",
            Box::new(|| {
                frame.clear();
                zstd.compress_to_buffer(body, &mut frame).unwrap();
            }),
        );
        time(
            "  field",
            Box::new(|| {
                std::hint::black_box(keys.field("session", "15551234567.0"));
            }),
        );
    }
}
