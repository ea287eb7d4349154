//! The log: text on a terminal, JSON lines otherwise, always to stderr. stdout is for data.

use std::io::{self, IsTerminal as _};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer as _, filter::Targets, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::config::Log;

/// Whether stderr gets text instead of JSON.
pub fn is_pretty(log: Log) -> bool {
    !log.json.unwrap_or_else(|| !io::stderr().is_terminal())
}

/// Sends events to stderr from now on. Does nothing when somebody (a test) has done so already.
pub fn start(log: Log) {
    // What our libraries log below warn prints what passes through them.
    let filter = Targets::new()
        .with_target("pannier", LevelFilter::from_level(log.level))
        .with_default(LevelFilter::from_level(log.level.min(tracing::Level::WARN)));
    let layer = if is_pretty(log) {
        fmt::layer().with_ansi(io::stderr().is_terminal()).with_target(false).with_writer(io::stderr).boxed()
    } else {
        fmt::layer().json().flatten_event(true).with_writer(io::stderr).boxed()
    };
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
    std::panic::set_hook(Box::new(|panic| {
        // The message of a panic may hold what a client sent; the place says enough.
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "a fault in Pannier");
    }));
}
