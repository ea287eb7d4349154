//! The scripts of queues: one decision each, all on the one hash slot of their queue.

use crate::{owner::scripts::script, valkey::Script};

/// A script of a queue: what all of them begin with, and its own files.
macro_rules! queue_script {
    ($name:literal, $shebang:literal, $($file:literal),+) => {
        script!($name, $shebang, "lua/head.lua", "lua/queue.lua", $($file),+)
    };
}

pub static ENQUEUE: Script = script!(
    "schedule/enqueue",
    "#!lua",
    "lua/head.lua",
    "lua/add_one.lua",
    "lua/queue.lua",
    "lua/add.lua",
    "lua/records.lua",
    "lua/turns.lua",
    "lua/ends.lua",
    "lua/shown.lua",
    "lua/enqueue.lua"
);
pub static LEASE: Script = queue_script!(
    "schedule/lease",
    "#!lua flags=allow-oom",
    "lua/records.lua",
    "lua/turns.lua",
    "lua/ends.lua",
    "lua/due.lua",
    "lua/ripen.lua",
    "lua/lease.lua"
);
pub static SETTLE: Script = queue_script!(
    "schedule/settle",
    "#!lua flags=allow-oom",
    "lua/records.lua",
    "lua/turns.lua",
    "lua/ends.lua",
    "lua/retries.lua",
    "lua/settles.lua",
    "lua/settle.lua",
    "lua/settled.lua"
);
/// Settles, and leases what comes next.
pub static TURN: Script = script!(
    "schedule/turn",
    "#!lua flags=allow-oom",
    "lua/head.lua",
    "lua/turn.lua",
    "lua/queue.lua",
    "lua/records.lua",
    "lua/turns.lua",
    "lua/ends.lua",
    "lua/retries.lua",
    "lua/due.lua",
    "lua/settles.lua",
    "lua/ripen.lua",
    "lua/settle.lua",
    "lua/lease.lua"
);
pub static RENEW: Script =
    queue_script!("schedule/renew", "#!lua flags=allow-oom", "lua/records.lua", "lua/renew.lua");
pub static TICK: Script = queue_script!(
    "schedule/tick",
    "#!lua flags=allow-oom",
    "lua/records.lua",
    "lua/turns.lua",
    "lua/ends.lua",
    "lua/retries.lua",
    "lua/due.lua",
    "lua/tick.lua"
);
pub static FIND: Script = queue_script!(
    "schedule/find",
    "#!lua flags=no-writes",
    "lua/records.lua",
    "lua/shown.lua",
    "lua/find.lua"
);
pub static CHANGE: Script = queue_script!(
    "schedule/change",
    "#!lua flags=allow-oom",
    "lua/records.lua",
    "lua/turns.lua",
    "lua/ends.lua",
    "lua/shown.lua",
    "lua/change.lua"
);
pub static DEAD: Script = queue_script!(
    "schedule/dead",
    "#!lua flags=allow-oom",
    "lua/records.lua",
    "lua/turns.lua",
    "lua/ends.lua",
    "lua/shown.lua",
    "lua/dead.lua"
);
pub static PURGE: Script = queue_script!(
    "schedule/purge",
    "#!lua flags=allow-oom",
    "lua/records.lua",
    "lua/turns.lua",
    "lua/ends.lua",
    "lua/shown.lua",
    "lua/seek.lua",
    "lua/purge.lua"
);
pub static LIST: Script = queue_script!(
    "schedule/list",
    "#!lua flags=no-writes",
    "lua/records.lua",
    "lua/shown.lua",
    "lua/seek.lua",
    "lua/list.lua"
);
pub static CONFIGURE: Script = queue_script!("schedule/configure", "#!lua", "lua/configure.lua");
pub static STATS: Script = queue_script!("schedule/stats", "#!lua flags=no-writes", "lua/stats.lua");
pub static DEFER: Script = queue_script!(
    "schedule/defer",
    "#!lua flags=allow-oom",
    "lua/records.lua",
    "lua/turns.lua",
    "lua/ends.lua",
    "lua/defer.lua"
);
pub static CRON: Script = queue_script!("schedule/cron", "#!lua", "lua/cron.lua");
pub static MEND: Script = queue_script!(
    "schedule/mend",
    "#!lua flags=allow-oom",
    "lua/records.lua",
    "lua/turns.lua",
    "lua/shown.lua",
    "lua/mend.lua"
);

/// All of them, to be loaded on every connect.
pub static ALL: &[&Script] = &[
    &ENQUEUE, &LEASE, &SETTLE, &TURN, &RENEW, &TICK, &FIND, &CHANGE, &DEAD, &PURGE, &LIST, &CONFIGURE,
    &STATS, &DEFER, &CRON, &MEND,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::ALL;

    /// The names of the functions that a source defines.
    fn defined(source: &str) -> BTreeSet<&str> {
        source
            .lines()
            .filter_map(|line| line.strip_prefix("local function "))
            .filter_map(|rest| rest.split('(').next())
            .collect()
    }

    fn words(source: &str) -> BTreeSet<&str> {
        source
            .lines()
            .filter(|line| !line.trim_start().starts_with("--"))
            .flat_map(|line| line.split(|c: char| !(c.is_alphanumeric() || c == '_')))
            .collect()
    }

    /// In Lua a name that is not there is found out only when it is used.
    #[test]
    fn every_script_has_the_functions_that_it_calls() {
        let all: BTreeSet<_> = ALL.iter().flat_map(|script| defined(script.source)).collect();
        assert!(all.contains("finish") && all.contains("promote"));
        for script in ALL {
            let has = defined(script.source);
            let lacks: Vec<_> = words(script.source)
                .into_iter()
                .filter(|name| all.contains(name) && !has.contains(name))
                // The same word may name something else there.
                .filter(|name| {
                    ![" ", ","].iter().any(|end| script.source.contains(&format!("local {name}{end}")))
                })
                .collect();
            assert!(lacks.is_empty(), "{} lacks {lacks:?}", script.name);
        }
    }
}
