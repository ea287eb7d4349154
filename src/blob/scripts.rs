//! The blob scripts: one decision each, all on the one hash slot of their owner.

use crate::{owner::scripts::script, valkey::Script};

pub static BEGIN: Script = script!("blob/begin", "#!lua", "prelude.lua", "begin.lua");
pub static PART: Script = script!("blob/part", "#!lua", "prelude.lua", "part.lua");
pub static FLIP: Script = script!("blob/flip", "#!lua", "prelude.lua", "flip.lua");
pub static ABORT: Script = script!("blob/abort", "#!lua flags=allow-oom", "prelude.lua", "abort.lua");
pub static SPOILED: Script = script!("blob/spoiled", "#!lua flags=allow-oom", "prelude.lua", "spoiled.lua");
pub static DELETE: Script = script!("blob/delete", "#!lua flags=allow-oom", "prelude.lua", "delete.lua");
pub static RESTORE: Script = script!("blob/restore", "#!lua flags=allow-oom", "prelude.lua", "restore.lua");
pub static ROLLBACK: Script =
    script!("blob/rollback", "#!lua flags=allow-oom", "prelude.lua", "rollback.lua");
pub static SHRED: Script = script!("blob/shred", "#!lua flags=allow-oom", "prelude.lua", "shred.lua");
pub static AGE: Script = script!("blob/age", "#!lua flags=allow-oom", "prelude.lua", "age.lua");
pub static COLLECT: Script = script!("blob/collect", "#!lua flags=allow-oom", "prelude.lua", "collect.lua");
pub static REMOVE: Script = script!("blob/remove", "#!lua flags=allow-oom", "prelude.lua", "remove.lua");

/// All of them, to be loaded on every connect.
pub static ALL: &[&Script] =
    &[&BEGIN, &PART, &FLIP, &ABORT, &SPOILED, &DELETE, &RESTORE, &ROLLBACK, &SHRED, &AGE, &COLLECT, &REMOVE];
