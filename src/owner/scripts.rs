//! The scripts of the index, and the clock that every script reads.

use crate::valkey::Script;

/// The clock as Lua: `server_us()`. A test build may shift it.
#[cfg(not(feature = "test-clock"))]
macro_rules! clock {
    () => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/owner/clock.lua"))
    };
}

#[cfg(feature = "test-clock")]
macro_rules! clock {
    () => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/owner/clock_shifted.lua"))
    };
}

#[cfg(all(feature = "test-clock", not(debug_assertions)))]
compile_error!("test-clock is for builds with debug assertions: it lets a test shift the clock");

/// A script: its name, the `#!` line, and the files that it is made of, beside the caller's. Before them stands what all may use: the
/// clock and `int()`.
macro_rules! script {
    ($name:literal, $shebang:literal, $($file:literal),+) => {
        $crate::valkey::Script::new(
            $name,
            concat!(
                $shebang,
                "\n",
                $crate::owner::scripts::clock!(),
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/owner/common.lua")),
                $(include_str!($file)),+
            ),
        )
    };
}

pub(crate) use {clock, script};

pub static UNLIST: Script = Script::new("owner/unlist", include_str!("unlist.lua"));
pub static INDEX: Script = Script::new("owner/index", include_str!("index.lua"));
pub static DUE: Script = script!("owner/due", "#!lua flags=no-writes", "due.lua");
pub static NAMESPACE: Script = Script::new("owner/namespace", include_str!("namespace.lua"));

/// All of them, to be loaded on every connect.
pub static ALL: &[&Script] = &[&UNLIST, &INDEX, &DUE, &NAMESPACE];
