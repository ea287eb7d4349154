//! The cap scripts: one decision each, all on the one hash slot of a namespace.

use crate::{owner::scripts::clock, valkey::Script};

macro_rules! script {
    ($name:literal, $shebang:literal $(, $shared:literal)?) => {
        Script::new(
            concat!("cap/", $name),
            concat!(
                $shebang,
                "\n",
                clock!(),
                include_str!("prelude.lua"),
                $(include_str!($shared),)?
                include_str!(concat!($name, ".lua"))
            ),
        )
    };
}

pub static CONSUME: Script = script!("consume", "#!lua", "judge.lua");
pub static PEEK: Script = script!("peek", "#!lua flags=no-writes", "judge.lua");
pub static SEND: Script = script!("send", "#!lua flags=no-writes");
pub static SETTLE: Script = script!("settle", "#!lua flags=allow-oom");
pub static INBOUND: Script = script!("inbound", "#!lua");
pub static SET_POLICY: Script = script!("set_policy", "#!lua");
pub static DELETE_POLICY: Script = script!("delete_policy", "#!lua flags=allow-oom");

/// All of them, to be loaded on every connect.
pub static ALL: &[&Script] = &[&CONSUME, &PEEK, &SEND, &SETTLE, &INBOUND, &SET_POLICY, &DELETE_POLICY];
