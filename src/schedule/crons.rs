//! Recurring jobs.

use std::sync::Arc;

use super::handle::Handle;
use crate::error::Result;

/// Fires what is due.
pub async fn fire(_handle: &Arc<Handle>, _now: u64) -> Result<()> {
    Ok(())
}
