//! The cap scripts: one decision each, all on the one hash slot of a namespace.

use crate::{owner::scripts::script, valkey::Script};

/// A script of the caps: what all of them begin with, and its own files.
macro_rules! cap_script {
    ($name:literal, $shebang:literal, $($file:literal),+) => {
        script!($name, $shebang, "format.lua", "../owner/marks.lua", "prelude.lua", $($file),+)
    };
}

/// A script that judges policies, with the rules that it is given.
macro_rules! judging {
    ($name:literal, $shebang:literal, $decision:literal, $($rule:literal),+) => {
        cap_script!($name, $shebang, "judge.lua", $($rule),+, $decision)
    };
}

/// The same for one rule, with what decides the most frequent case before anything else is made.
macro_rules! judging_one {
    ($name:literal, $one:literal, $rule:literal) => {
        script!(
            $name,
            "#!lua",
            "format.lua",
            $one,
            "../owner/marks.lua",
            "prelude.lua",
            "judge.lua",
            $rule,
            "consume.lua"
        )
    };
}

/// For policies of any rules. The next four are the same for those of one rule: each run of a script makes its functions anew,
/// and the fewer there are the sooner it is done.
pub static CONSUME: Script =
    judging!("cap/consume", "#!lua", "consume.lua", "fixed.lua", "rolling.lua", "bucket.lua", "unique.lua");
pub static CONSUME_FIXED: Script = judging_one!("cap/consume_fixed", "fixed_one.lua", "fixed.lua");
pub static CONSUME_ROLLING: Script = judging!("cap/consume_rolling", "#!lua", "consume.lua", "rolling.lua");
pub static CONSUME_BUCKET: Script = judging_one!("cap/consume_bucket", "bucket_one.lua", "bucket.lua");
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
pub static SEND: Script = cap_script!("cap/send", "#!lua flags=no-writes", "send.lua");
pub static SETTLE: Script = cap_script!("cap/settle", "#!lua flags=allow-oom", "settle.lua");
pub static INBOUND: Script = cap_script!("cap/inbound", "#!lua", "inbound.lua");
pub static SET_POLICY: Script = cap_script!("cap/set_policy", "#!lua", "set_policy.lua");
pub static DELETE_POLICY: Script =
    cap_script!("cap/delete_policy", "#!lua flags=allow-oom", "delete_policy.lua");

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
