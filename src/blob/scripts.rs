//! The blob scripts: one decision each, all on the one hash slot of their owner.

use crate::{owner::scripts::clock, valkey::Script};

macro_rules! script {
    ($name:literal, $shebang:literal) => {
        Script::new(
            concat!("blob/", $name),
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

pub static BEGIN: Script = script!("begin", "#!lua");
pub static PART: Script = script!("part", "#!lua");
pub static FLIP: Script = script!("flip", "#!lua");
pub static ABORT: Script = script!("abort", "#!lua flags=allow-oom");
pub static SPOILED: Script = script!("spoiled", "#!lua flags=allow-oom");
pub static DELETE: Script = script!("delete", "#!lua flags=allow-oom");
pub static RESTORE: Script = script!("restore", "#!lua flags=allow-oom");
pub static ROLLBACK: Script = script!("rollback", "#!lua flags=allow-oom");
pub static SHRED: Script = script!("shred", "#!lua flags=allow-oom");
pub static AGE: Script = script!("age", "#!lua flags=allow-oom");
pub static COLLECT: Script = script!("collect", "#!lua flags=allow-oom");
pub static REMOVE: Script = script!("remove", "#!lua flags=allow-oom");

/// All of them, to be loaded on every connect.
pub static ALL: &[&Script] =
    &[&BEGIN, &PART, &FLIP, &ABORT, &SPOILED, &DELETE, &RESTORE, &ROLLBACK, &SHRED, &AGE, &COLLECT, &REMOVE];
