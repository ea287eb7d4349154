//! What the operating system knows of this process, under the names that Prometheus' own clients use.

use std::fs;

use metrics::{counter, gauge};

/// Ticks a second in /proc; fixed on Linux.
const TICKS: f64 = 100.0;

/// Makes known what does not change.
pub fn register() {
    gauge!("pannier_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    sample();
}

/// Looks again. What cannot be read (there is no /proc) stays as it was.
#[allow(clippy::cast_precision_loss)] // far below 2^53
pub fn sample() {
    if let Ok(entries) = fs::read_dir("/proc/self/fd") {
        // One of them is the directory itself.
        gauge!("process_open_fds").set(entries.count().saturating_sub(1) as f64);
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    gauge!("process_max_fds").set(limit.map_or(f64::INFINITY, |limit| limit as f64));
    if let Some(resident) = resident() {
        gauge!("process_resident_memory_bytes").set(resident as f64);
    }
    let Ok(stat) = fs::read_to_string("/proc/self/stat") else { return };
    // The name before it may hold anything.
    let Some((_, rest)) = stat.rsplit_once(") ") else { return };
    let fields: Vec<f64> = rest.split(' ').map(|field| field.parse().unwrap_or(0.0)).collect();
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0.0);
    gauge!("process_threads").set(field(20));
    counter!("process_cpu_seconds_total").absolute(whole(((field(14) + field(15)) / TICKS).floor()));
    if let Some(booted) = boot_time() {
        gauge!("process_start_time_seconds").set(booted + field(22) / TICKS);
    }
}

fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix(" kB")?;
    Some(kib.parse::<u64>().ok()? * 1024)
}

fn boot_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a count of seconds
fn whole(seconds: f64) -> u64 {
    seconds.max(0.0) as u64
}
