//! Who runs on a database, and with which keys: what the steps of a rotation wait for.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::panic)]

mod support;

use std::{fs, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use pannier::proto::v1::{ClaimRequest, CompleteClaimRequest, KeyState};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, open},
    keys,
    small::{answered, claim, complete},
    unary::Unary,
};
use tonic::Code;

const P: KeyState = KeyState::Primary;
const D: KeyState = KeyState::DecryptOnly;
const REGISTRY: &str = "pannier:test:sidecars";

fn entries(valkey: &Valkey) -> Vec<(String, String)> {
    let mut entries: Vec<(String, String)> =
        redis::cmd("HGETALL").arg(REGISTRY).query(&mut valkey.connection()).unwrap();
    entries.sort();
    entries
}

#[tokio::test]
async fn promote_and_rewrap_are_refused_while_a_sidecar_lacks_the_key_and_name_it() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let (one, mut two) = keys::two(&valkey).await;
    keys::make_sessions(&one, "bot", 2).await;
    keys::done(&one, &["add"]);
    keys::reload(&one, &[(1, P), (2, D)]).await;
    let before = fs::read(one.keyring()).unwrap();
    let said = keys::refused(&one, &["promote", "2"], 1);
    assert!(
        said.contains(&format!(":{}", two.pid())) && !said.contains(&format!(":{}", one.pid())),
        "{said}"
    );
    assert_eq!(fs::read(one.keyring()).unwrap(), before, "the file is as it was");
    assert!(keys::refused(&one, &["promote", "9"], 78).contains("there is no key 9"));

    // Somebody has done it by hand all the same.
    let text = fs::read_to_string(one.keyring()).unwrap();
    let by_hand =
        text.replace("primary", "later").replace("decrypt_only", "primary").replace("later", "decrypt_only");
    keys::write(&one.keyring(), &by_hand);
    keys::reload(&one, &[(1, D), (2, P)]).await;
    let refused = keys::rewrap(&one, 0).await.unwrap_err();
    assert_eq!(refused.why(), (Code::FailedPrecondition, "WRONG_STATE"));
    assert!(refused.message.contains(&format!(":{}", two.pid())), "{refused:?}");
    assert_eq!(keys::wraps(&one, 1).await.owners, 2, "nothing was moved");

    // What is made under a key that the other lacks is "wrong key" there: not absent, and nothing is made in its place.
    keys::make_sessions(&one, "new", 1).await;
    let mismatch = (Code::FailedPrecondition, "KEY_MISMATCH");
    let refused = Unary::of(&two).get("new-0", "creds", &["creds"]).await.unwrap_err();
    assert_eq!(refused.why(), mismatch, "{refused:?}");
    let refused = Attach::open(two.channel(), open("new-0", "late")).await.err().unwrap();
    assert_eq!(refused.why(), mismatch, "{refused:?}");
    one.blobs().save("blob", b"bytes").await.unwrap();
    assert_eq!(two.blobs().fetch("blob").await.unwrap_err().why(), mismatch);
    assert_eq!(two.blobs().save("blob", b"other").await.unwrap_err().why(), mismatch);
    let foreign = || ClaimRequest { namespace: "new".into(), ..claim("one") };
    let fence = one.dedup().claim(foreign()).await.unwrap().into_inner().fence;
    let answer = CompleteClaimRequest { namespace: "new".into(), ..complete("one", fence, b"the answer") };
    one.dedup().complete_claim(answer).await.unwrap();
    assert_eq!(answered(two.dedup().claim(foreign()).await).unwrap_err().why(), mismatch);
    keys::check_sessions(&one, "new", 1).await;

    // Once it has stopped it is in nobody's way.
    two.stop().await;
    keys::alive(&one, 1).await;
    let ended = keys::rewrap(&one, 0).await.unwrap();
    assert_eq!((ended.moved, ended.skipped), (2, 3), "{ended:?}");
    assert!(keys::done(&one, &["promote", "2"]).contains("1 sidecar runs"));
}

#[tokio::test]
async fn a_sidecar_that_stops_is_taken_out_and_a_silent_one_is_forgotten() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let (one, mut two) = keys::two(&valkey).await;
    let found = keys::alive(&one, 2).await;
    for info in &found {
        assert_eq!(info.version, env!("CARGO_PKG_VERSION"));
        assert_eq!(info.keys.iter().map(|key| (key.id, key.state())).collect::<Vec<_>>(), [(1, P)]);
        let pid = if info.own { one.pid() } else { two.pid() };
        assert!(info.name.ends_with(&format!(":{pid}")), "{info:?}");
        assert!(info.started_at.is_some() && info.seen_at.is_some());
    }
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for (_, entry) in entries(&valkey) {
        let (clear, sealed) = entry.rsplit_once(' ').unwrap();
        assert!(!clear.contains(&host) && !clear.contains(&format!(":{}", one.pid())), "in clear: {entry}");
        // Short names are in many random texts by chance; the two together are not.
        let sealed = URL_SAFE_NO_PAD.decode(sealed).unwrap();
        let holds = |text: &str| sealed.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        for pid in [one.pid(), two.pid()] {
            assert!(!(holds(&host) && holds(&pid.to_string())), "only encoded: {entry}");
        }
    }

    two.stop().await;
    keys::alive(&one, 1).await;
    assert_eq!(entries(&valkey).len(), 1, "a stop takes it out at once");
    two.spawn();
    two.wait_serving(Duration::from_secs(10)).await;
    keys::alive(&one, 2).await;

    // Killed, it stays for a while; and does not count any more when it has been silent for 90 s by Valkey's clock.
    two.kill9();
    let own = keys::alive(&one, 2).await.into_iter().find(|info| info.own).unwrap().id;
    let (id, entry) = entries(&valkey).into_iter().find(|(id, _)| *id != own).unwrap();
    let age = |seconds: u64| {
        let (seen, rest) = entry.split_once(' ').unwrap();
        let entry = format!("{} {rest}", seen.parse::<u64>().unwrap() - seconds * 1000);
        redis::cmd("HSET").arg(REGISTRY).arg(&id).arg(entry).exec(&mut valkey.connection()).unwrap();
    };
    age(60);
    assert_eq!(keys::sidecars(&one).await.len(), 2);
    age(100);
    assert_eq!(keys::sidecars(&one).await.len(), 1);
    keys::done(&one, &["add"]);
    keys::reload(&one, &[(1, P), (2, D)]).await;
    keys::done(&one, &["promote", "2"]);
    assert_eq!(entries(&valkey).len(), 1, "the next sign of life collects it");
}

#[tokio::test]
async fn status_shows_file_and_sidecars_and_says_when_they_differ() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    keys::make_sessions(&sidecar, "bot", 3).await;
    keys::alive(&sidecar, 1).await;
    keys::done(&sidecar, &["add"]);
    let output = keys::keys(&sidecar, &["status"]);
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("is not what the sidecar uses"), "{said}");
    assert!(text.contains("decrypt_only") && text.contains(&format!(":{}", sidecar.pid())), "{text}");
    keys::reload(&sidecar, &[(1, P), (2, D)]).await;
    let shown = keys::shown(&sidecar, &["status"]);
    let rows: Vec<_> = shown["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| {
            (key["id"].as_u64(), key["state"].as_str(), key["in_use"].as_str(), key["owners"].as_u64())
        })
        .collect();
    assert_eq!(
        rows,
        [
            (Some(1), Some("primary"), Some("primary"), Some(3)),
            (Some(2), Some("decrypt_only"), Some("decrypt_only"), Some(0))
        ]
    );
    assert_eq!(shown["sidecars"][0]["keys"].as_array().unwrap().len(), 2, "{shown}");

    let alone = support::pannier(&[
        "keys",
        "status",
        "--json",
        "--keyring",
        support::path_str(&sidecar.keyring()),
        "--address",
        "/tmp/no/such.sock",
    ]);
    let alone: serde_json::Value = serde_json::from_slice(&alone.stdout).unwrap();
    assert!(alone["sidecars"].is_null() && alone["keys"].as_array().unwrap().len() == 2, "{alone}");
}

/// What cannot be written is refused as that, and what is read is not mistaken for nobody.
#[tokio::test]
async fn an_entry_of_a_later_version_is_not_taken_for_nobody() {
    let (valkey, sidecar) = support::start().await;
    keys::done(&sidecar, &["add"]);
    keys::reload(&sidecar, &[(1, P), (2, D)]).await;
    redis::cmd("HSET")
        .arg(REGISTRY)
        .arg("ffff")
        .arg("9 of a new kind")
        .exec(&mut valkey.connection())
        .unwrap();
    let said = keys::refused(&sidecar, &["promote", "2"], 69);
    assert!(said.contains("unknown shape"), "{said}");
}

#[tokio::test]
async fn a_rate_beyond_its_bound_is_named() {
    let (_valkey, sidecar) = support::start().await;
    let refused = keys::rewrap(&sidecar, 100_001).await.unwrap_err();
    assert_eq!(refused.why(), (Code::InvalidArgument, "BAD_FIELD"));
    assert_eq!(refused.fields, ["owners_per_second"]);
    assert!(keys::rewrap(&sidecar, 100_000).await.unwrap().done);
    assert_eq!(support::pannier(&["keys", "rewrap", "--rate", "0"]).status.code(), Some(64));
}
