//! The session scripts: one decision each, all on the one hash slot of their owner.

use crate::{owner::scripts::clock, valkey::Script};

macro_rules! script {
    ($name:literal, $shebang:literal) => {
        script!($name, $name, $shebang)
    };
    ($name:literal, $file:literal, $shebang:literal) => {
        Script::new(
            concat!("session/", $name),
            concat!(
                $shebang,
                "\n",
                clock!(),
                include_str!("prelude.lua"),
                include_str!(concat!($file, ".lua"))
            ),
        )
    };
}

pub static OPEN: Script = script!("open", "#!lua");
pub static COMMIT: Script = script!("commit", "#!lua");
/// Of a commit that only deletes: a full memory must not forbid what frees it.
pub static COMMIT_DELETES: Script = script!("commit_deletes", "commit", "#!lua flags=allow-oom");
pub static GET: Script = script!("get", "#!lua flags=no-writes");
pub static LIST: Script = script!("list", "#!lua flags=no-writes");
pub static RENEW: Script = script!("renew", "#!lua flags=allow-oom");
pub static RELEASE: Script = script!("release", "#!lua flags=allow-oom");
pub static CLEAR: Script = script!("clear", "#!lua flags=allow-oom");
pub static DELETE: Script = script!("delete", "#!lua flags=allow-oom");
pub static RESTORE: Script = script!("restore", "#!lua");
pub static SHRED: Script = script!("shred", "#!lua flags=allow-oom");

/// All of them, to be loaded on every connect.
pub static ALL: &[&Script] =
    &[&OPEN, &COMMIT, &COMMIT_DELETES, &GET, &LIST, &RENEW, &RELEASE, &CLEAR, &DELETE, &RESTORE, &SHRED];
