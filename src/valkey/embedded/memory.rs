//! How much memory the child may use when nobody says so: a share of what there is, so that a full database ends in an
//! error and not in a killed process.

use std::fs;

const SHARE: u64 = 60;
/// When nothing can be found out.
const FALLBACK: u64 = 1 << 30;

/// 60 % of the host's memory or of the cgroup's limit, whichever is less.
pub(super) fn default_maxmemory() -> u64 {
    let available = [host(), cgroup()].into_iter().flatten().min();
    available.map_or(FALLBACK, |bytes| bytes / 100 * SHARE)
}

fn host() -> Option<u64> {
    if let Ok(meminfo) = fs::read_to_string("/proc/meminfo") {
        return total_kib(&meminfo)?.checked_mul(1024);
    }
    // macOS
    let output = std::process::Command::new("sysctl").args(["-n", "hw.memsize"]).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

fn total_kib(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The lowest limit on the way up from our cgroup (v2), or that of v1. In a container our own cgroup is often the root.
fn cgroup() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let mut path = std::path::Path::new("/sys/fs/cgroup").join(own.trim_start_matches('/'));
    let mut lowest: Option<u64> = None;
    while path.starts_with("/sys/fs/cgroup") {
        lowest = [lowest, limit(&path.join("memory.max"))].into_iter().flatten().min();
        if !path.pop() {
            break;
        }
    }
    lowest.or_else(|| limit("/sys/fs/cgroup/memory/memory.limit_in_bytes".as_ref()))
}

/// A limit file's number; `max`, and v1's way of saying so, are none.
fn limit(path: &std::path::Path) -> Option<u64> {
    let bytes: u64 = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    (bytes < 1 << 60).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_memory_is_read() {
        assert_eq!(total_kib("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16384));
        assert_eq!(total_kib(""), None);
        assert!(default_maxmemory() > 1 << 24);
    }
}
