//! The log: JSON lines or text, an owner by the start of its tag only, and as much of it as was asked for.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use pannier::proto::v1;
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, open},
};

/// A bot is taken over, which is worth a line; gives all the log and the tags in Valkey's key names.
async fn take_over(format: &str, level: &str) -> (String, Vec<String>) {
    let valkey = Valkey::start(ValkeyOptions::default());
    let envs = [("PANNIER_LOG_FORMAT", format), ("PANNIER_LOG_LEVEL", level)];
    let envs = envs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let mut sidecar = Sidecar::start(Options { envs, ..Options::with(&valkey) }).await;
    let mut first = Attach::open(sidecar.channel(), open("bot-15557772468", "first")).await.unwrap();
    let take = v1::Open { on_held: v1::OnHeld::TakeOver.into(), ..open("bot-15557772468", "second") };
    let second = Attach::open(sidecar.channel(), take).await.unwrap();
    first.lost().await;
    drop(second);
    let keys = valkey.keys("pannier:test:{*}:h");
    let tags = keys.iter().map(|key| key.split(['{', '}']).nth(1).unwrap().to_owned()).collect();
    assert!(sidecar.stop().await.success());
    (sidecar.logs(), tags)
}

#[tokio::test]
async fn json_is_one_object_a_line_and_an_owner_is_the_start_of_its_tag() {
    let (log, tags) = take_over("json", "debug").await;
    let mut owners = 0;
    for line in log.lines() {
        let line: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        for key in ["timestamp", "level", "message", "target"] {
            assert!(line[key].is_string(), "no {key} in {line}");
        }
        if let Some(owner) = line["owner"].as_str() {
            owners += 1;
            assert!(owner.len() <= 8 && tags.iter().any(|tag| tag.starts_with(owner)), "{owner} of {tags:?}");
        }
    }
    assert!(owners > 0, "the take-over was logged:\n{log}");
    for tag in tags {
        assert!(!log.contains(&tag), "a whole tag is in the log");
    }
}

#[tokio::test]
async fn text_is_for_eyes_without_colours_in_a_file() {
    let (log, _) = take_over("pretty", "info").await;
    assert!(log.lines().any(|line| line.contains("INFO") && line.contains("a lease was lost")), "{log}");
    assert!(!log.contains('\x1b') && !log.contains("{\""), "{log}");
    assert!(!log.contains("DEBUG"), "{log}");
}

#[tokio::test]
async fn at_error_a_good_day_leaves_no_line() {
    let (log, _) = take_over("json", "error").await;
    assert_eq!(log, "");
}
