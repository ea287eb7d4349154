//! Nothing altered, cut, lengthened or moved opens, and nothing that is read makes us panic or grow without bound.

use std::{collections::HashSet, io::Write as _};

use proptest::prelude::*;

use super::{counting, keyring, keyring_of, record_keys, root};
use crate::crypto::{
    Context, KeyState, Keyring, MAX_PLAINTEXT, OVERHEAD, OpenError, RecordPayload, RootKey, SharedKeyring,
    UnwrapError, canary, check_canary, envelope, envelope_revision, kdf::Prk, random_salt, rewrap,
    seal_canary, unwrap, wrap,
};

fn context() -> Context {
    Context::new("session", &[b"default", b"bot-1", b"session", b"15551234567.0"])
}

fn owner() -> Context {
    Context::new("session", &[b"default", b"bot-1"])
}

fn sealed(plaintext: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    record_keys().seal(1, 7, &context(), plaintext, &mut out);
    out
}

fn open(envelope: &[u8]) -> Result<Vec<u8>, OpenError> {
    record_keys().open(&context(), envelope).map(|opened| opened.plaintext.to_vec())
}

/// A record that zstd is worth for.
fn json() -> Vec<u8> {
    br#"{"type":"Buffer","data":"AAECAwQFBgc="},"#.repeat(20)
}

#[test]
fn every_flipped_bit_of_a_record_is_noticed() {
    for good in [sealed(b"hello"), sealed(b""), sealed(&json())] {
        assert!(open(&good).is_ok());
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let expected = match bit / 8 {
                0 => OpenError::Malformed,
                1 | 2 => OpenError::UnknownFormat,
                _ => OpenError::Corrupt,
            };
            assert_eq!(open(&bad), Err(expected), "bit {bit}");
        }
    }
}

#[test]
fn every_truncation_and_every_longer_record_is_refused() {
    let good = sealed(&json());
    for len in 0..good.len() {
        let expected = if len < OVERHEAD { OpenError::Malformed } else { OpenError::Corrupt };
        assert_eq!(open(&good[..len]), Err(expected), "{len}");
    }
    for extra in [1, 16, 1000] {
        let mut bad = good.clone();
        bad.resize(good.len() + extra, 0);
        assert_eq!(open(&bad), Err(OpenError::Corrupt));
    }
}

#[test]
fn plain_values_and_noise_are_no_records() {
    for noise in [&b""[..], b"h", b"hello", &[0x50; 39], &counting::<200>(0x50)] {
        assert!(open(noise).is_err());
        assert_eq!(envelope_revision(noise), None);
        assert!(matches!(
            unwrap(&SharedKeyring::fixed(keyring()), noise, &owner()).err(),
            Some(UnwrapError::Malformed)
        ));
        assert!(!check_canary(&keyring(), 1, noise));
    }
}

#[test]
fn a_record_opens_in_its_own_place_only() {
    let good = sealed(b"hello");
    let elsewhere: [&[&[u8]]; 5] = [
        &[b"default", b"bot-2", b"session", b"15551234567.0"],
        &[b"other", b"bot-1", b"session", b"15551234567.0"],
        &[b"default", b"bot-1", b"sender-key", b"15551234567.0"],
        &[b"default", b"bot-1", b"session", b"15551234567.1"],
        &[b"default", b"bot-1", b"session15551234567.0"],
    ];
    for parts in elsewhere {
        let place = Context::new("session", parts);
        assert_eq!(record_keys().open(&place, &good).err(), Some(OpenError::Corrupt));
    }
    let other_owner = RootKey::generate().record_keys();
    assert_eq!(other_owner.open(&context(), &good).err(), Some(OpenError::Corrupt));
}

#[test]
fn sealing_appends_and_compresses_only_where_it_pays() {
    let mut out = b"before".to_vec();
    record_keys().seal(1, 7, &context(), b"hello", &mut out);
    assert_eq!(&out[..6], b"before");
    assert_eq!(open(&out[6..]).as_deref(), Ok(&b"hello"[..]));

    let noise: Vec<u8> = (0..200).flat_map(|_| random_salt()).collect();
    for (plaintext, flags) in [(noise, 0), (vec![0; 255], 0), (vec![0; 256], 1), (json(), 1)] {
        let record = sealed(&plaintext);
        assert_eq!(record[3], flags, "{} bytes", plaintext.len());
        assert_eq!(record.len() < plaintext.len(), flags == 1);
        assert_eq!(open(&record), Ok(plaintext));
    }
    let largest = vec![7; MAX_PLAINTEXT];
    assert_eq!(open(&sealed(&largest)).map(|plaintext| plaintext == largest), Ok(true));
    let above = vec![7; MAX_PLAINTEXT + 1];
    assert_eq!(sealed(&above)[3], 0, "it would not open again if it were compressed");
}

/// A record made by someone with the key (an old or a broken sidecar) whose frame is not what it should be.
#[test]
fn a_frame_that_lies_or_has_no_bound_is_refused() {
    let with = |flags: u8, body: &[u8]| {
        let sealed =
            envelope::seal_with(&record_keys().record, (1, 7, flags), &counting(0x60), &context(), body);
        open(&sealed)
    };
    let frame = zstd::bulk::compress(&json(), 1).unwrap();
    assert_eq!(with(1, &frame), Ok(json()));

    let too_large = zstd::bulk::compress(&vec![0; MAX_PLAINTEXT + 1], 1).unwrap();
    assert_eq!(with(1, &too_large), Err(OpenError::Corrupt));
    // A frame header alone that claims 2^40 bytes.
    let mut claims = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
    claims.extend_from_slice(&(1u64 << 40).to_le_bytes());
    claims.extend_from_slice(&[0x01, 0, 0]);
    assert_eq!(with(1, &claims), Err(OpenError::Corrupt));
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_contentsize(false).unwrap();
    encoder.write_all(&json()).unwrap();
    let unsized_frame = encoder.finish().unwrap();
    assert_eq!(with(1, &unsized_frame), Err(OpenError::Corrupt), "a frame must say its size");
    assert_eq!(with(1, &[&frame[..], &frame].concat()), Err(OpenError::Corrupt), "one frame");
    assert_eq!(with(1, b""), Err(OpenError::Corrupt));
    assert_eq!(with(1, b"hello"), Err(OpenError::Corrupt));
    for flags in [0x02, 0x03, 0x80, 0xff] {
        assert_eq!(with(flags, b"hello"), Err(OpenError::UnknownFormat), "flags {flags:#x}");
    }
    assert_eq!(with(0, b"hello"), Ok(b"hello".to_vec()));
}

#[test]
fn every_flipped_bit_of_a_wrapped_key_is_noticed() {
    let shared = SharedKeyring::fixed(keyring());
    let good = wrap(&keyring(), &root(), 3, &owner());
    assert_eq!(unwrap(&shared, &good, &owner()).ok().unwrap().1, 3);
    for bit in 0..good.len() * 8 {
        let mut bad = good;
        bad[bit / 8] ^= 1 << (bit % 8);
        let why = unwrap(&shared, &bad, &owner()).err();
        let expected = match bit / 8 {
            0 => UnwrapError::Malformed,
            1..=3 => UnwrapError::UnknownFormat,
            4..=7 => UnwrapError::UnknownKeyId(u32::from_be_bytes(bad[4..8].try_into().unwrap())),
            8..=67 => UnwrapError::Mismatch,
            _ => UnwrapError::Corrupt,
        };
        assert_eq!(why, Some(expected), "bit {bit}");
    }
    for len in 0..good.len() {
        assert_eq!(unwrap(&shared, &good[..len], &owner()).err(), Some(UnwrapError::Malformed));
    }
    let longer = [&good[..], b"x"].concat();
    assert_eq!(unwrap(&shared, &longer, &owner()).err(), Some(UnwrapError::Malformed));
}

/// hashicorp/vault#29532: after a rewrap the context still binds.
#[test]
fn a_rewrapped_key_keeps_its_context() {
    let before = keyring_of(&[(1, KeyState::Primary, 0), (2, KeyState::DecryptOnly, 0x80)]);
    let wrapped = wrap(&before, &root(), 3, &owner());
    let after = before.with_primary(2).unwrap();
    let rewrapped = rewrap(&after, &wrapped, &owner()).ok().unwrap().expect("it was under key 1");
    assert!(
        rewrap(&after, &rewrapped, &owner()).ok().unwrap().is_none(),
        "it is under the primary key already"
    );
    let only_new = SharedKeyring::fixed(after.with_disabled(1).unwrap().without(1).unwrap());
    let (back, epoch) = unwrap(&only_new, &rewrapped, &owner()).ok().unwrap();
    assert_eq!((back.as_bytes(), epoch), (root().as_bytes(), 3));
    let other = Context::new("session", &[b"default", b"bot-2"]);
    assert_eq!(unwrap(&only_new, &rewrapped, &other).err(), Some(UnwrapError::Corrupt));
    // What is another owner's, or altered, is not wrapped anew for whoever asks.
    assert_eq!(rewrap(&after, &wrapped, &other).err(), Some(UnwrapError::Corrupt));
    let mut altered = wrapped;
    altered[90] ^= 1;
    assert_eq!(rewrap(&after, &altered, &owner()).err(), Some(UnwrapError::Corrupt));
    assert_eq!(unwrap(&only_new, &wrapped, &owner()).err(), Some(UnwrapError::UnknownKeyId(1)));
    let disabled = SharedKeyring::fixed(after.with_disabled(1).unwrap());
    assert_eq!(unwrap(&disabled, &wrapped, &owner()).err(), Some(UnwrapError::DisabledKeyId(1)));
}

#[test]
fn the_canary_tells_another_key_from_an_altered_record() {
    let mine = keyring();
    let theirs = keyring_of(&[(1, KeyState::Primary, 0x90)]);
    let canary = seal_canary(&mine, 1).unwrap();
    assert!(check_canary(&mine, 1, &canary));
    assert!(!check_canary(&theirs, 1, &canary));
    assert!(!check_canary(&mine, 2, &canary));
    assert_eq!(seal_canary(&mine, 2), None);
    let two = keyring_of(&[(1, KeyState::Primary, 0), (2, KeyState::Disabled, 0x90)]);
    assert!(!check_canary(&two, 2, &canary));
    assert!(check_canary(&two, 2, &seal_canary(&two, 2).unwrap()), "a disabled key has one too");
    // Another text under the right key is no canary.
    let other = envelope::seal_with(
        &canary::key(&mine, 1).unwrap(),
        (0, 0, 0),
        &counting(0),
        &canary::context(1),
        b"x",
    );
    assert!(!check_canary(&mine, 1, &other));

    let wrapped = wrap(&mine, &root(), 1, &owner());
    assert_eq!(unwrap(&SharedKeyring::fixed(theirs), &wrapped, &owner()).err(), Some(UnwrapError::Mismatch));
}

#[test]
fn a_listed_name_opens_under_its_own_tag_only() {
    let keyring = keyring();
    let tag = keyring.owner_tag("session", "default", "bot-1");
    let other = keyring.owner_tag("session", "default", "bot-2");
    let names = keyring.index_name_key();
    let sealed = names.seal_name(&tag, "default", "bot-1");
    assert_eq!(names.open_name(&tag, &sealed), Some(("default".to_owned(), "bot-1".to_owned())));
    assert_eq!(names.open_name(&other, &sealed), None);
    assert_eq!(Keyring::generate().0.index_name_key().open_name(&tag, &sealed), None);
}

/// Types are told apart by code, unknown ones by a keyed hash; no type takes another's field.
#[test]
fn fields_carry_their_type() {
    use crate::crypto::TypeCode;
    let keys = record_keys();
    let known = [
        "creds",
        "pre-key",
        "session",
        "sender-key",
        "sender-key-memory",
        "app-state-sync-key",
        "app-state-sync-version",
        "lid-mapping",
        "device-list",
        "tctoken",
        "identity-key",
    ];
    for (code, ty) in (1..).zip(known) {
        assert_eq!(keys.type_code(ty).as_bytes(), [code]);
        assert_eq!(keys.type_code(ty).type_name(), Some(ty));
    }
    for ty in ["", "foo-bar", "Session", "sentinel"] {
        let code = keys.type_code(ty);
        assert_eq!((code.as_bytes().len(), code.as_bytes()[0], code.type_name()), (9, 255, None));
        assert_ne!(code, RootKey::generate().record_keys().type_code(ty));
        let field = keys.field(ty, "1");
        assert_eq!(TypeCode::split(field.as_bytes()), Some((code, &keys.name(ty, "1")[..])));
    }
    assert_eq!(TypeCode::SENTINEL.as_bytes(), [0]);
    assert_eq!(TypeCode::SENTINEL.type_name(), None);
    let field = keys.field("creds", "");
    assert_eq!(
        TypeCode::split(field.as_bytes()),
        Some((keys.type_code("creds"), &keys.name("creds", "")[..]))
    );
    for none in [&b""[..], b"\x0c0123456789abcdef", b"\xff1234567", b"\xfe"] {
        assert_eq!(TypeCode::split(none), None);
    }
}

/// hashicorp/vault#13243: no two records share a key and nonce, because no two share a salt.
#[test]
fn a_million_salts_are_unique_and_so_are_their_keys() {
    let salts: HashSet<_> = (0..1_000_000).map(|_| random_salt()).collect();
    assert_eq!(salts.len(), 1_000_000);
    let key = Prk::new(root().as_bytes());
    let commitments: HashSet<_> =
        salts.iter().take(20_000).map(|salt| key.okm(salt).commitment().to_vec()).collect();
    assert_eq!(commitments.len(), 20_000);
    let mut twice = [Vec::new(), Vec::new()];
    for out in &mut twice {
        record_keys().seal(1, 7, &context(), b"hello", out);
    }
    assert_ne!(twice[0][16..], twice[1][16..]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_is_sealed_opens(plaintext in proptest::collection::vec(0u8..4, 0..3000), epoch: u32, revision: u64) {
        let mut out = Vec::new();
        record_keys().seal(epoch, revision, &context(), &plaintext, &mut out);
        prop_assert_eq!(envelope_revision(&out), Some(revision));
        let opened = record_keys().open(&context(), &out).ok().unwrap();
        prop_assert_eq!((opened.epoch, opened.revision), (epoch, revision));
        prop_assert_eq!(&opened.plaintext[..], &plaintext[..]);
    }

    #[test]
    fn whatever_is_read_never_panics(mut noise in proptest::collection::vec(any::<u8>(), 0..300), like in 0..3) {
        let prefix: &[u8] = match like { 0 => b"", 1 => b"P\x01\x01\0", _ => b"P\x01\x81\0" };
        noise.splice(..prefix.len().min(noise.len()), prefix.iter().copied());
        prop_assert!(open(&noise).is_err());
        prop_assert!(unwrap(&SharedKeyring::fixed(keyring()), &noise, &owner()).is_err());
        let keyring = keyring();
        let tag = keyring.owner_tag("session", "default", "bot-1");
        prop_assert_eq!(keyring.index_name_key().open_name(&tag, &noise), None);
        let _ = (RecordPayload::decode(&noise), envelope_revision(&noise));
    }
}

/// A body of three segments, the last one shorter.
fn body() -> (Vec<u8>, [Vec<u8>; 3]) {
    let mut sealer = root().blob_key().sealer(1, 7, &context());
    let mut seal = |plaintext: &[u8], last| {
        let mut out = Vec::new();
        sealer.seal(plaintext, last, &mut out);
        out
    };
    let segments = [seal(&[1; 100], false), seal(&[2; 100], false), seal(&[3; 10], true)];
    (sealer.preamble().to_vec(), segments)
}

fn open_body(preamble: &[u8], segments: &[(&[u8], bool)], ctx: &Context) -> Result<Vec<u8>, OpenError> {
    let mut opener = root().blob_key().opener(7, ctx, preamble)?;
    let mut out = Vec::new();
    for (segment, last) in segments {
        opener.open(segment, *last, &mut out)?;
    }
    Ok(out)
}

#[test]
fn a_blobs_body_opens_only_whole_in_order_and_in_its_place() {
    let (preamble, [a, b, c]) = body();
    let whole: [(&[u8], bool); 3] = [(&a, false), (&b, false), (&c, true)];
    assert_eq!(open_body(&preamble, &whole, &context()).map(|out| out.len()), Ok(210));
    let wrong: [&[(&[u8], bool)]; 7] = [
        &[(&b, false)],
        &[(&a, false), (&c, true)],
        &[(&a, false), (&a, false)],
        &[(&a, true)],
        &[(&a, false), (&b, true)],
        &[(&a, false), (&b, false), (&c, false)],
        &[(&a[..a.len() - 1], false)],
    ];
    for segments in wrong {
        assert_eq!(open_body(&preamble, segments, &context()), Err(OpenError::Corrupt));
    }
    assert_eq!(open_body(&preamble, &whole, &owner()), Err(OpenError::Corrupt), "another place");
    let (other, _) = body();
    assert_eq!(open_body(&other, &whole, &context()), Err(OpenError::Corrupt), "another body's preamble");
    assert!(root().blob_key().opener(8, &context(), &preamble).is_err(), "another generation");
    assert!(RootKey::generate().blob_key().opener(7, &context(), &preamble).is_err(), "another key");
}

#[test]
fn every_flipped_bit_of_a_blobs_body_is_noticed_and_gives_nothing() {
    let (preamble, [a, ..]) = body();
    for bit in 0..preamble.len() * 8 {
        let mut bad = preamble.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let expected = match bit / 8 {
            0 => OpenError::Malformed,
            1 | 2 => OpenError::UnknownFormat,
            _ => OpenError::Corrupt,
        };
        assert_eq!(open_body(&bad, &[(&a, false)], &context()), Err(expected), "bit {bit}");
    }
    for bit in 0..a.len() * 8 {
        let mut bad = a.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let mut opener = root().blob_key().opener(7, &context(), &preamble).ok().unwrap();
        let mut out = b"before".to_vec();
        assert_eq!(opener.open(&bad, false, &mut out), Err(OpenError::Corrupt));
        assert_eq!(out, b"before");
        // What failed did not use up its place.
        opener.open(&a, false, &mut out).unwrap();
        assert_eq!(out.len(), 106);
    }
    for len in 0..preamble.len() {
        assert_eq!(open_body(&preamble[..len], &[], &context()), Err(OpenError::Malformed));
    }
}
