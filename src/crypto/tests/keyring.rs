//! What a keyring file may say, and that no refusal and no `Debug` shows a key.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::prelude::*;

use super::{counting, hex, keyring_of};
use crate::crypto::{KeyState, Keyring};

fn base64(first: u8) -> String {
    STANDARD.encode(counting::<32>(first))
}

fn entry(id: &str, state: &str, secret: &str) -> String {
    format!("\n[[key]]\nid = {id}\nstate = \"{state}\"\nsecret = \"{secret}\"\n")
}

fn file(entries: &[String]) -> String {
    format!("index_key = \"{}\"\n{}", base64(0x40), entries.concat())
}

fn refusal(text: &str) -> String {
    Keyring::parse(text).expect_err(text).to_string()
}

#[test]
fn a_generated_keyring_comes_back_from_its_text() {
    let (keyring, text) = Keyring::generate();
    let parsed = Keyring::parse(&text).unwrap();
    assert!(parsed.same(&keyring));
    assert_eq!(parsed.ids(), [(1, KeyState::Primary)]);
    assert!(!parsed.same(&Keyring::generate().0));
    assert_eq!(*parsed.to_toml(), *text);
}

#[test]
fn padding_may_be_missing_and_order_is_free() {
    let bare = base64(0x00);
    let text = format!(
        "# mine\nindex_key = \" {} \"\n[[key]]\nsecret = \"{}\"\nstate = \"primary\"\nid = 0\n",
        base64(0x40),
        bare.trim_end_matches('=')
    );
    assert!(Keyring::parse(&text).unwrap().same(&keyring_of(&[(0, KeyState::Primary, 0x00)])));
}

#[test]
fn a_wrong_file_is_refused_with_what_to_do() {
    let one = || entry("1", "primary", &base64(0x00));
    let two = |state: &str| entry("2", state, &base64(0x80));
    let cases = [
        (String::new(), "index_key is missing"),
        (file(&[]), "there is no [[key]]"),
        (one(), "index_key is missing"),
        (file(&[two("decrypt_only")]), "no key is the primary"),
        (file(&[one(), two("primary")]), "keys 1 and 2 are both primary"),
        (file(&[one(), entry("1", "disabled", &base64(0x80))]), "same id 1"),
        (file(&[one(), entry("2", "disabled", &base64(0x00))]), "keys 1 and 2 have the same bytes"),
        (file(&[entry("1", "primary", &base64(0x40))]), "key 1 has the bytes of index_key"),
        (file(&[one(), two("retired")]), "[[key]] number 2: state must be"),
        (file(&[entry("-1", "primary", &base64(0))]), "id must be a whole number"),
        (file(&[entry("4294967296", "primary", &base64(0))]), "id must be a whole number"),
        (file(&[entry("\"1\"", "primary", &base64(0))]), "id must be a whole number"),
        (file(&[entry("1", "primary", "AAAA")]), "secret has 3 bytes: it must have 32"),
        (file(&[entry("1", "primary", "")]), "secret has 0 bytes"),
        (file(&[entry("1", "primary", "not base64!")]), "secret is not valid base64"),
        (file(&["\n[[key]]\nid = 1\nstate = \"primary\"\n".to_owned()]), "secret is missing"),
        (
            file(&["\n[[key]]\nid = 1\nstate = \"primary\"\nsecret = 7\n".to_owned()]),
            "secret must be a string",
        ),
        (file(&["\n[key]\nid = 1\n".to_owned()]), "write each key under [[key]]"),
        (file(&[format!("{}note = 1\n", one())]), "unknown entry \"note\""),
        (format!("keys = 1\n{}", file(&[one()])), "unknown entry \"keys\""),
        (file(&[one(), "\nsecret = \n".to_owned()]), "is not valid TOML"),
        (format!("index_key = \"{}\n", base64(0x40)), "line 1 is not valid TOML"),
    ];
    for (text, expected) in cases {
        let refused = refusal(&text);
        assert!(refused.contains(expected), "{refused:?} should say {expected:?}");
    }
    let crowd: Vec<_> = (0..300).map(|id: u32| entry(&id.to_string(), "disabled", "")).collect();
    assert!(refusal(&file(&crowd)).contains("more than 256 keys"));
}

#[test]
fn no_debug_shows_a_key() {
    let keyring = keyring_of(&[(1, KeyState::Primary, 0x00), (2, KeyState::Disabled, 0x80)]);
    let shown = format!("{keyring:?} {keyring:#?}");
    assert_eq!(
        shown.lines().next().unwrap().split_once(" Keyring").unwrap().0,
        "Keyring { keys: [(1, Primary), (2, Disabled)], .. }"
    );
    for first in [0x00, 0x40, 0x80] {
        let bytes = counting::<32>(first);
        for form in [base64(first), hex(&bytes), format!("{bytes:?}")] {
            assert!(!shown.contains(&form[..8]));
        }
    }
}

#[test]
fn a_rotation_goes_step_by_step() {
    let start = keyring_of(&[(7, KeyState::Primary, 0x00)]);
    let (added, id) = start.with_new_key().unwrap();
    assert_eq!((id, added.ids()), (8, vec![(7, KeyState::Primary), (8, KeyState::DecryptOnly)]));
    let promoted = added.with_primary(8).unwrap();
    assert_eq!(promoted.ids(), [(7, KeyState::DecryptOnly), (8, KeyState::Primary)]);
    assert_eq!(promoted.primary_id(), 8);
    let disabled = promoted.with_disabled(7).unwrap();
    assert_eq!(disabled.ids(), [(7, KeyState::Disabled), (8, KeyState::Primary)]);
    assert_eq!(disabled.with_enabled(7).unwrap().ids(), promoted.ids());
    assert_eq!(disabled.without(7).unwrap().ids(), [(8, KeyState::Primary)]);
    assert!(start.same_index_key(&disabled));

    for (refused, expected) in [
        (disabled.with_primary(7), "key 7 is disabled"),
        (disabled.with_primary(9), "there is no key 9"),
        (promoted.with_disabled(8), "key 8 is the primary"),
        (promoted.with_enabled(8), "key 8 is the primary"),
        (promoted.without(7), "key 7 is decrypt_only"),
        (promoted.without(8), "key 8 is primary"),
        (
            keyring_of(&[(u32::MAX, KeyState::Primary, 0)]).with_new_key().map(|(keyring, _)| keyring),
            "used up",
        ),
    ] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused:?} should say {expected:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Someone edits the file by hand and slips: whatever the refusal says, it quotes no key.
    #[test]
    fn no_refusal_shows_a_key(at in 0usize..400, cut in 0usize..30, put in "[ -~\n]{0,3}") {
        let good = file(&[entry("1", "primary", &base64(0x00)), entry("2", "decrypt_only", &base64(0x80))]);
        let at = at.min(good.len());
        let text = format!("{}{put}{}", &good[..at], &good[(at + cut).min(good.len())..]);
        if let Err(error) = Keyring::parse(&text) {
            let shown = format!("{error} {error:?}");
            for secret in [0x00, 0x40, 0x80].map(base64) {
                for piece in secret.as_bytes().windows(6) {
                    prop_assert!(!shown.contains(std::str::from_utf8(piece).unwrap()), "{}", shown);
                }
            }
        }
    }
}
