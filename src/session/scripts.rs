//! The session scripts: one decision each, all on the one hash slot of their owner.

use crate::valkey::Script;

#[cfg(not(feature = "test-clock"))]
macro_rules! clock {
    () => {
        include_str!("clock.lua")
    };
}

#[cfg(feature = "test-clock")]
macro_rules! clock {
    () => {
        include_str!("clock_shifted.lua")
    };
}

#[cfg(all(feature = "test-clock", not(debug_assertions)))]
compile_error!("test-clock is for builds with debug assertions: it lets a test shift the clock");

macro_rules! script {
    ($name:literal, $shebang:literal) => {
        Script::new(
            concat!("session/", $name),
            concat!(
                $shebang,
                "\n",
                clock!(),
                include_str!("prelude.lua"),
                include_str!(concat!($name, ".lua"))
            ),
        )
    };
}

pub static OPEN: Script = script!("open", "#!lua");
pub static COMMIT: Script = script!("commit", "#!lua");
pub static GET: Script = script!("get", "#!lua flags=no-writes");
pub static LIST: Script = script!("list", "#!lua flags=no-writes");
pub static RENEW: Script = script!("renew", "#!lua flags=allow-oom");
pub static RELEASE: Script = script!("release", "#!lua flags=allow-oom");
pub static CLEAR: Script = script!("clear", "#!lua flags=allow-oom");
pub static DELETE: Script = script!("delete", "#!lua flags=allow-oom");
pub static RESTORE: Script = script!("restore", "#!lua");
pub static SHRED: Script = script!("shred", "#!lua flags=allow-oom");

pub static INDEX: Script = Script::new("session/index", include_str!("index.lua"));
pub static UNLIST: Script = Script::new("session/unlist", include_str!("unlist.lua"));
pub static DUE: Script =
    Script::new("session/due", concat!("#!lua flags=no-writes\n", clock!(), include_str!("due.lua")));

/// All of them, to be loaded on every connect.
pub static ALL: &[&Script] = &[
    &OPEN, &COMMIT, &GET, &LIST, &RENEW, &RELEASE, &CLEAR, &DELETE, &RESTORE, &SHRED, &INDEX, &UNLIST, &DUE,
];
