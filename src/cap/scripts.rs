//! The cap scripts: one decision each, all on the one hash slot of a namespace.

use crate::{owner::scripts::script, valkey::Script};

/// A script that judges policies, with the rules that it is given.
macro_rules! judging {
    ($name:literal, $shebang:literal, $decision:literal, $($rule:literal),+) => {
        script!($name, $shebang, "../owner/marks.lua", "prelude.lua", "judge.lua", $($rule),+, $decision)
    };
}

/// For policies of any rules. The next four are the same for those of one rule: each run of a script makes its functions anew,
/// and the fewer there are the sooner it is done.
pub static CONSUME: Script =
    judging!("cap/consume", "#!lua", "consume.lua", "fixed.lua", "rolling.lua", "bucket.lua", "unique.lua");
pub static CONSUME_FIXED: Script = judging!("cap/consume_fixed", "#!lua", "consume.lua", "fixed.lua");
pub static CONSUME_ROLLING: Script = judging!("cap/consume_rolling", "#!lua", "consume.lua", "rolling.lua");
pub static CONSUME_BUCKET: Script = judging!("cap/consume_bucket", "#!lua", "consume.lua", "bucket.lua");
pub static CONSUME_UNIQUE: Script = judging!("cap/consume_unique", "#!lua", "consume.lua", "unique.lua");
pub static PEEK: Script = judging!(
    "cap/peek",
    "#!lua flags=no-writes",
    "peek.lua",
    "fixed.lua",
    "rolling.lua",
    "bucket.lua",
    "unique.lua"
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
pub static ALL: &[&Script] = &[
    &CONSUME,
    &CONSUME_FIXED,
    &CONSUME_ROLLING,
    &CONSUME_BUCKET,
    &CONSUME_UNIQUE,
    &PEEK,
    &SEND,
    &SETTLE,
    &INBOUND,
    &SET_POLICY,
    &DELETE_POLICY,
];
