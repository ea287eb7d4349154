//! The conversation scripts: one decision each, on the one key of a conversation.

use crate::{owner::scripts::clock, valkey::Script};

macro_rules! script {
    ($name:literal, $shebang:literal) => {
        Script::new(
            concat!("conversation/", $name),
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

pub static GET: Script = script!("get", "#!lua flags=no-writes");
pub static ADVANCE: Script = script!("advance", "#!lua");
pub static TOUCH: Script = script!("touch", "#!lua flags=allow-oom");
pub static RESET: Script = script!("reset", "#!lua flags=allow-oom");

/// All of them, to be loaded on every connect.
pub static ALL: &[&Script] = &[&GET, &ADVANCE, &TOUCH, &RESET];
