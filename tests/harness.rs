//! The harness itself: a real server starts, dies, comes back with its data.

mod support;

use support::{Valkey, ValkeyOptions};

#[test]
fn a_killed_valkey_comes_back_with_its_data() {
    let mut valkey = Valkey::start(ValkeyOptions::default().set("appendfsync", "always"));
    let _: () = valkey.command(&["SET", "a", "1"]);
    valkey.restart();
    assert_eq!(valkey.command::<String>(&["GET", "a"]), "1");
}
