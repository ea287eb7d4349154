//! The claim scripts: one decision each, on the one key of a claim.

use crate::{owner::scripts::clock, valkey::Script};

macro_rules! script {
    ($name:literal, $shebang:literal) => {
        Script::new(
            concat!("dedup/", $name),
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

pub static CLAIM: Script = script!("claim", "#!lua");
pub static COMPLETE: Script = script!("complete", "#!lua flags=allow-oom");
pub static EXTEND: Script = script!("extend", "#!lua flags=allow-oom");
pub static RELEASE: Script = script!("release", "#!lua flags=allow-oom");

/// All of them, to be loaded on every connect.
pub static ALL: &[&Script] = &[&CLAIM, &COMPLETE, &EXTEND, &RELEASE];
