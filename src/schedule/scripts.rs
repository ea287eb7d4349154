//! The scripts of queues: one decision each, all on the one hash slot of their queue.

use crate::{owner::scripts::clock, valkey::Script};

macro_rules! script {
    ($name:literal, $shebang:literal) => {
        Script::new(
            concat!("schedule/", $name),
            concat!(
                $shebang,
                "\n",
                clock!(),
                include_str!("lua/prelude.lua"),
                include_str!(concat!("lua/", $name, ".lua"))
            ),
        )
    };
}

pub static ENQUEUE: Script = script!("enqueue", "#!lua");
pub static LEASE: Script = script!("lease", "#!lua flags=allow-oom");
pub static SETTLE: Script = script!("settle", "#!lua flags=allow-oom");
pub static RENEW: Script = script!("renew", "#!lua flags=allow-oom");
pub static TICK: Script = script!("tick", "#!lua flags=allow-oom");
pub static FIND: Script = script!("find", "#!lua flags=no-writes");
pub static CHANGE: Script = script!("change", "#!lua flags=allow-oom");
pub static DEAD: Script = script!("dead", "#!lua flags=allow-oom");
pub static PURGE: Script = script!("purge", "#!lua flags=allow-oom");
pub static LIST: Script = script!("list", "#!lua flags=no-writes");
pub static CONFIGURE: Script = script!("configure", "#!lua");
pub static STATS: Script = script!("stats", "#!lua flags=no-writes");
pub static DEFER: Script = script!("defer", "#!lua flags=allow-oom");
pub static CRON: Script = script!("cron", "#!lua");
pub static MEND: Script = script!("mend", "#!lua flags=allow-oom");

/// All of them, to be loaded on every connect.
pub static ALL: &[&Script] = &[
    &ENQUEUE, &LEASE, &SETTLE, &RENEW, &TICK, &FIND, &CHANGE, &DEAD, &PURGE, &LIST, &CONFIGURE, &STATS,
    &DEFER, &CRON, &MEND,
];
