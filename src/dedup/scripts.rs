//! The claim scripts: one decision each, on the one key of a claim.

use crate::{owner::scripts::script, valkey::Script};

pub static CLAIM: Script = script!(
    "dedup/claim",
    "#!lua",
    "format.lua",
    "new.lua",
    "../owner/marks.lua",
    "prelude.lua",
    "claim.lua"
);
pub static COMPLETE: Script = script!(
    "dedup/complete",
    "#!lua flags=allow-oom",
    "format.lua",
    "../owner/marks.lua",
    "prelude.lua",
    "complete.lua"
);
pub static EXTEND: Script = script!(
    "dedup/extend",
    "#!lua flags=allow-oom",
    "format.lua",
    "../owner/marks.lua",
    "prelude.lua",
    "extend.lua"
);
pub static RELEASE: Script = script!(
    "dedup/release",
    "#!lua flags=allow-oom",
    "format.lua",
    "../owner/marks.lua",
    "prelude.lua",
    "release.lua"
);

/// All of them, to be loaded on every connect.
pub static ALL: &[&Script] = &[&CLAIM, &COMPLETE, &EXTEND, &RELEASE];
