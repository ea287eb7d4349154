//! The scripts of a rotation, each on one hash slot.

use crate::{owner::scripts::script, valkey::Script};

pub static WRAPPED: Script = Script::new("rotation/wrapped", include_str!("wrapped.lua"));
pub static REWRAP: Script = Script::new("rotation/rewrap", include_str!("rewrap.lua"));
pub static REGISTER: Script = script!("rotation/register", "#!lua flags=allow-oom", "register.lua");

/// All of them, to be loaded on every connect.
pub static ALL: &[&Script] = &[&WRAPPED, &REWRAP, &REGISTER];
