//! The scripts of queues: one decision each, all on the one hash slot of their queue.

use crate::{owner::scripts::script, valkey::Script};

pub static ENQUEUE: Script = script!(
    "schedule/enqueue",
    "#!lua",
    "lua/queue.lua",
    "lua/add.lua",
    "lua/records.lua",
    "lua/turns.lua",
    "lua/ends.lua",
    "lua/shown.lua",
    "lua/enqueue.lua"
);
pub static LEASE: Script = script!(
    "schedule/lease",
    "#!lua flags=allow-oom",
    "lua/queue.lua",
    "lua/records.lua",
    "lua/turns.lua",
    "lua/ends.lua",
    "lua/due.lua",
    "lua/lease.lua"
);
pub static SETTLE: Script = script!(
    "schedule/settle",
    "#!lua flags=allow-oom",
    "lua/queue.lua",
    "lua/records.lua",
    "lua/turns.lua",
    "lua/ends.lua",
    "lua/retries.lua",
    "lua/settle.lua"
);
pub static RENEW: Script =
    script!("schedule/renew", "#!lua flags=allow-oom", "lua/queue.lua", "lua/records.lua", "lua/renew.lua");
pub static TICK: Script = script!(
    "schedule/tick",
    "#!lua flags=allow-oom",
    "lua/queue.lua",
    "lua/records.lua",
    "lua/turns.lua",
    "lua/ends.lua",
    "lua/retries.lua",
    "lua/due.lua",
    "lua/tick.lua"
);
pub static FIND: Script = script!(
    "schedule/find",
    "#!lua flags=no-writes",
    "lua/queue.lua",
    "lua/records.lua",
    "lua/shown.lua",
    "lua/find.lua"
);
pub static CHANGE: Script = script!(
    "schedule/change",
    "#!lua flags=allow-oom",
    "lua/queue.lua",
    "lua/records.lua",
    "lua/turns.lua",
    "lua/ends.lua",
    "lua/shown.lua",
    "lua/change.lua"
);
pub static DEAD: Script = script!(
    "schedule/dead",
    "#!lua flags=allow-oom",
    "lua/queue.lua",
    "lua/records.lua",
    "lua/turns.lua",
    "lua/ends.lua",
    "lua/shown.lua",
    "lua/dead.lua"
);
pub static PURGE: Script = script!(
    "schedule/purge",
    "#!lua flags=allow-oom",
    "lua/queue.lua",
    "lua/records.lua",
    "lua/turns.lua",
    "lua/ends.lua",
    "lua/shown.lua",
    "lua/purge.lua"
);
pub static LIST: Script = script!(
    "schedule/list",
    "#!lua flags=no-writes",
    "lua/queue.lua",
    "lua/records.lua",
    "lua/shown.lua",
    "lua/list.lua"
);
pub static CONFIGURE: Script = script!("schedule/configure", "#!lua", "lua/queue.lua", "lua/configure.lua");
pub static STATS: Script =
    script!("schedule/stats", "#!lua flags=no-writes", "lua/queue.lua", "lua/stats.lua");
pub static DEFER: Script = script!(
    "schedule/defer",
    "#!lua flags=allow-oom",
    "lua/queue.lua",
    "lua/records.lua",
    "lua/turns.lua",
    "lua/ends.lua",
    "lua/defer.lua"
);
pub static CRON: Script = script!("schedule/cron", "#!lua", "lua/queue.lua", "lua/cron.lua");
pub static MEND: Script = script!(
    "schedule/mend",
    "#!lua flags=allow-oom",
    "lua/queue.lua",
    "lua/records.lua",
    "lua/turns.lua",
    "lua/shown.lua",
    "lua/mend.lua"
);

/// All of them, to be loaded on every connect.
pub static ALL: &[&Script] = &[
    &ENQUEUE, &LEASE, &SETTLE, &RENEW, &TICK, &FIND, &CHANGE, &DEAD, &PURGE, &LIST, &CONFIGURE, &STATS,
    &DEFER, &CRON, &MEND,
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
