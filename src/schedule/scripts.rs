//! The scripts of queues: one decision each, all on the one hash slot of their queue.

use crate::{owner::scripts::script, valkey::Script};

pub static ENQUEUE: Script = script!("schedule/enqueue", "#!lua", "lua/prelude.lua", "lua/enqueue.lua");
pub static LEASE: Script =
    script!("schedule/lease", "#!lua flags=allow-oom", "lua/prelude.lua", "lua/lease.lua");
pub static SETTLE: Script =
    script!("schedule/settle", "#!lua flags=allow-oom", "lua/prelude.lua", "lua/settle.lua");
pub static RENEW: Script =
    script!("schedule/renew", "#!lua flags=allow-oom", "lua/prelude.lua", "lua/renew.lua");
pub static TICK: Script =
    script!("schedule/tick", "#!lua flags=allow-oom", "lua/prelude.lua", "lua/tick.lua");
pub static FIND: Script =
    script!("schedule/find", "#!lua flags=no-writes", "lua/prelude.lua", "lua/find.lua");
pub static CHANGE: Script =
    script!("schedule/change", "#!lua flags=allow-oom", "lua/prelude.lua", "lua/change.lua");
pub static DEAD: Script =
    script!("schedule/dead", "#!lua flags=allow-oom", "lua/prelude.lua", "lua/dead.lua");
pub static PURGE: Script =
    script!("schedule/purge", "#!lua flags=allow-oom", "lua/prelude.lua", "lua/purge.lua");
pub static LIST: Script =
    script!("schedule/list", "#!lua flags=no-writes", "lua/prelude.lua", "lua/list.lua");
pub static CONFIGURE: Script = script!("schedule/configure", "#!lua", "lua/prelude.lua", "lua/configure.lua");
pub static STATS: Script =
    script!("schedule/stats", "#!lua flags=no-writes", "lua/prelude.lua", "lua/stats.lua");
pub static DEFER: Script =
    script!("schedule/defer", "#!lua flags=allow-oom", "lua/prelude.lua", "lua/defer.lua");
pub static CRON: Script = script!("schedule/cron", "#!lua", "lua/prelude.lua", "lua/cron.lua");
pub static MEND: Script =
    script!("schedule/mend", "#!lua flags=allow-oom", "lua/prelude.lua", "lua/mend.lua");

/// All of them, to be loaded on every connect.
pub static ALL: &[&Script] = &[
    &ENQUEUE, &LEASE, &SETTLE, &RENEW, &TICK, &FIND, &CHANGE, &DEAD, &PURGE, &LIST, &CONFIGURE, &STATS,
    &DEFER, &CRON, &MEND,
];
