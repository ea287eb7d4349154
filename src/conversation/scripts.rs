//! The conversation scripts: one decision each, on the one key of a conversation.

use crate::{owner::scripts::script, valkey::Script};

pub static GET: Script =
    script!("conversation/get", "#!lua flags=no-writes", "../owner/marks.lua", "prelude.lua", "get.lua");
pub static ADVANCE: Script =
    script!("conversation/advance", "#!lua", "../owner/marks.lua", "prelude.lua", "advance.lua");
pub static TOUCH: Script =
    script!("conversation/touch", "#!lua flags=allow-oom", "../owner/marks.lua", "prelude.lua", "touch.lua");
pub static RESET: Script =
    script!("conversation/reset", "#!lua flags=allow-oom", "../owner/marks.lua", "prelude.lua", "reset.lua");

/// All of them, to be loaded on every connect.
pub static ALL: &[&Script] = &[&GET, &ADVANCE, &TOUCH, &RESET];
