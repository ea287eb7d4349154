//! Spans of time as a person writes them: `500ms`, `20s`, `2h 30m`, `7d`.

use jiff::{Span, SpanRelativeTo};
use prost_types::Duration;

/// Reads one; a day has 24 hours here.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = |error: jiff::Error| format!("{error}; write it like 500ms, 20s, 2h or 7d");
    let span: Span = text.parse().map_err(wrong)?;
    let span = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(wrong)?;
    Ok(Duration { seconds: span.as_secs(), nanos: span.subsec_nanos() })
}

/// Reads `20/1s`: so many in so long.
pub fn parse_limit(text: &str) -> Result<(u32, Duration), String> {
    let (max, per) = text.split_once('/').ok_or("write it like 20/1s")?;
    let max = max.trim().parse().map_err(|_| "write it like 20/1s")?;
    Ok((max, parse(per.trim())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_as_they_are_written() {
        let ms = |text: &str| parse(text).map(|d| d.seconds * 1000 + i64::from(d.nanos) / 1_000_000);
        assert_eq!(ms("500ms"), Ok(500));
        assert_eq!(ms("2h 30m"), Ok(9_000_000));
        assert_eq!(ms("7d"), Ok(7 * 86_400_000));
        assert_eq!(ms("-5s"), Ok(-5_000));
        assert!(ms("soon").is_err());
        assert_eq!(parse_limit("20/1s").map(|(max, per)| (max, per.seconds)), Ok((20, 1)));
        assert!(parse_limit("20").is_err());
    }
}
