//! Readers of single values: sizes, durations, modes, groups. Each error says what is accepted.

use std::time::Duration;

use secrecy::SecretString;

/// A secret that is a file's only content. The reason repeats nothing of it.
pub fn secret(path: &str) -> Result<SecretString, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err("the file is empty".to_owned()),
        secret => Ok(SecretString::from(secret)),
    }
}

/// `50us`, `500ms`, `2s`, `1m`, `1h`, or plain seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration such as 500ms, 2s or 1m");
    let (number, unit) = split(text);
    let unit_us = match unit {
        "us" | "µs" => 1,
        "ms" => 1000,
        "" | "s" => 1_000_000,
        "m" | "min" => 60_000_000,
        "h" => 3_600_000_000,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    Ok(Duration::from_micros(number.saturating_mul(unit_us)))
}

/// `64KiB`, `128MiB`, `2GiB`, or bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size such as 512MiB or 2GiB");
    let (number, unit) = split(text);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// An octal mode of a socket: `0600`, `660`.
pub fn mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| mode & !0o666 == 0 && mode & 0o600 == 0o600)
        .ok_or_else(|| format!("`{text}` is not a mode such as 0600 or 0660 (the owner must read and write)"))
}

/// Numbers of users, separated by commas.
pub fn uids(text: &str) -> Result<Vec<u32>, String> {
    text.split(',')
        .map(|uid| uid.trim().parse().map_err(|_| format!("`{uid}` is not the number of a user")))
        .collect()
}

/// A group by number or by its name in /etc/group.
pub fn group(text: &str) -> Result<u32, String> {
    if let Ok(gid) = text.parse() {
        return Ok(gid);
    }
    let groups = std::fs::read_to_string("/etc/group").map_err(|error| format!("/etc/group: {error}"))?;
    groups
        .lines()
        .find_map(|line| {
            let mut fields = line.split(':');
            (fields.next()? == text).then(|| fields.nth(1)?.parse().ok()).flatten()
        })
        .ok_or_else(|| format!("there is no group `{text}` in /etc/group; give its number"))
}

/// `true` or `false`, `on` or `off`.
pub fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(format!("`{text}` is neither on nor off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_read_as_people_write_them() {
        assert_eq!(size("128MiB"), Ok(128 << 20));
        assert_eq!(size("2 GB"), Ok(2 << 30));
        assert_eq!(size("17"), Ok(17));
        assert!(
            size("").is_err()
                && size("MiB").is_err()
                && size("99999999999GiB").is_err()
                && size("-1").is_err()
        );
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("50us"), Ok(Duration::from_micros(50)));
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        assert!(duration("2 weeks").is_err() && duration("").is_err());
    }

    #[test]
    fn a_mode_must_let_the_owner_in_and_execute_nothing() {
        assert_eq!(mode("0600"), Ok(0o600));
        assert_eq!(mode("660"), Ok(0o660));
        assert!(mode("0400").is_err() && mode("0700").is_err() && mode("9").is_err() && mode("").is_err());
    }
}
