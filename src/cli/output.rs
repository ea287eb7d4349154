//! What is printed, and what is asked.

use std::{
    fmt::Write as _,
    io::{self, BufRead as _, IsTerminal as _, Write as _},
};

use comfy_table::{ContentArrangement, Table, TableStyle};
use serde::Serialize;

use super::outcome::{Failed, NO, Outcome, USAGE};

/// Data, to stdout. A reader that went away (`| head`) is no failure.
pub fn data(text: &str) -> Outcome {
    let mut out = io::stdout().lock();
    let written =
        out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Data as JSON.
pub fn json(value: &impl Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
    data(&text)
}

/// Data as a table; the header goes with it.
pub fn table(header: &[&str], rows: Vec<Vec<String>>) -> Outcome {
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().map(|title| title.to_uppercase()));
    for row in rows {
        table.add_row(row);
    }
    data(&table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n"))
}

/// A word for the person, to stderr.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Says that a deletion or a restoration has dropped an archive.
pub fn note_of_oldest(dropped: bool) {
    if dropped {
        note("its oldest archive was dropped: three are kept");
    }
}

/// What failed, to stderr.
pub fn error(text: &str) {
    let colours =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let label = if colours { "\x1b[1;31merror:\x1b[0m" } else { "error:" };
    let _ = writeln!(io::stderr(), "{label} {text}");
}

/// Asks for `name` before something is lost. Without a terminal nobody can answer: then `yes` must be given.
pub fn confirm(yes: bool, what: &str, name: &str) -> Outcome {
    if yes {
        return Ok(());
    }
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failed::new(USAGE, format!("{what}. Without a terminal this needs --yes")));
    }
    let _ = write!(io::stderr(), "{what}.\nType the name ({name}) to go on: ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if answer.trim_end_matches(['\r', '\n']) == name { Ok(()) } else { Err(Failed::new(NO, "not done")) }
}

/// A name as a terminal can show it: no control characters.
pub fn shown(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

/// Bytes as a person reads them.
#[allow(clippy::cast_precision_loss)] // three digits are shown
pub fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count} B"),
        1024..1_048_576 => format!("{:.1} KiB", count as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", count as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", count as f64 / 1_073_741_824.0),
    }
}

/// Bytes in lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// An instant as RFC 3339 in UTC.
pub fn instant(time: Option<prost_types::Timestamp>) -> Option<String> {
    let time = time?;
    jiff::Timestamp::new(time.seconds, time.nanos).ok().map(|time| time.to_string())
}

/// An instant for a table: no fractions of a second; none is a dash.
pub fn or_dash(text: Option<&String>) -> String {
    text.map_or_else(
        || "-".to_owned(),
        |text| text.split('.').next().unwrap_or(text).trim_end_matches('Z').to_owned() + "Z",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_move_the_cursor() {
        assert_eq!(shown("bot\x1b[2J\n😀"), "bot\\u{1b}[2J\\n😀");
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(bytes(17), "17 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
    }
}
