//! The cap scripts: one decision each, all on the one hash slot of a namespace.

use crate::{owner::scripts::script, valkey::Script};

pub static CONSUME: Script =
    script!("cap/consume", "#!lua", "../owner/marks.lua", "prelude.lua", "judge.lua", "consume.lua");
pub static PEEK: Script = script!(
    "cap/peek",
    "#!lua flags=no-writes",
    "../owner/marks.lua",
    "prelude.lua",
    "judge.lua",
    "peek.lua"
);
pub static SEND: Script =
    script!("cap/send", "#!lua flags=no-writes", "../owner/marks.lua", "prelude.lua", "send.lua");
pub static SETTLE: Script =
    script!("cap/settle", "#!lua flags=allow-oom", "../owner/marks.lua", "prelude.lua", "settle.lua");
pub static INBOUND: Script =
    script!("cap/inbound", "#!lua", "../owner/marks.lua", "prelude.lua", "inbound.lua");
pub static SET_POLICY: Script =
    script!("cap/set_policy", "#!lua", "../owner/marks.lua", "prelude.lua", "set_policy.lua");
pub static DELETE_POLICY: Script = script!(
    "cap/delete_policy",
    "#!lua flags=allow-oom",
    "../owner/marks.lua",
    "prelude.lua",
    "delete_policy.lua"
);

/// All of them, to be loaded on every connect.
pub static ALL: &[&Script] = &[&CONSUME, &PEEK, &SEND, &SETTLE, &INBOUND, &SET_POLICY, &DELETE_POLICY];
