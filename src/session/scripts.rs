//! The session scripts: one decision each, all on the one hash slot of their owner.

use crate::{owner::scripts::script, valkey::Script};

pub static OPEN: Script = script!("session/open", "#!lua", "prelude.lua", "open.lua");
pub static COMMIT: Script = script!("session/commit", "#!lua", "prelude.lua", "commit.lua");
/// Of a commit that only deletes: a full memory must not forbid what frees it.
pub static COMMIT_DELETES: Script =
    script!("session/commit_deletes", "#!lua flags=allow-oom", "prelude.lua", "commit.lua");
pub static GET: Script = script!("session/get", "#!lua flags=no-writes", "prelude.lua", "get.lua");
pub static LIST: Script = script!("session/list", "#!lua flags=no-writes", "prelude.lua", "list.lua");
pub static RENEW: Script = script!("session/renew", "#!lua flags=allow-oom", "prelude.lua", "renew.lua");
pub static RELEASE: Script =
    script!("session/release", "#!lua flags=allow-oom", "prelude.lua", "release.lua");
pub static CLEAR: Script = script!("session/clear", "#!lua flags=allow-oom", "prelude.lua", "clear.lua");
pub static DELETE: Script = script!("session/delete", "#!lua flags=allow-oom", "prelude.lua", "delete.lua");
pub static RESTORE: Script = script!("session/restore", "#!lua", "prelude.lua", "restore.lua");
pub static SHRED: Script = script!("session/shred", "#!lua flags=allow-oom", "prelude.lua", "shred.lua");

/// All of them, to be loaded on every connect.
pub static ALL: &[&Script] =
    &[&OPEN, &COMMIT, &COMMIT_DELETES, &GET, &LIST, &RENEW, &RELEASE, &CLEAR, &DELETE, &RESTORE, &SHRED];
