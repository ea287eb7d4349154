//! A keyring file's text with its keys changed and everything else, comments among it, as it was. It is a shortcut for the
//! layout that we write; the result is parsed, and what does not come out right is written anew as a whole.

use std::fmt::Write as _;

use zeroize::Zeroizing;

use super::{Keyring, keyring::Key, keyring_text::push_base64};

const ENTRY: &str = "[[key]]";

impl Keyring {
    /// `text` with the keys of this keyring; `None` when it is laid out in another way.
    pub(super) fn edit_text(&self, text: &str) -> Option<Zeroizing<String>> {
        // Room for all of it at once: a string that grows leaves copies behind that are not wiped.
        let mut out = Zeroizing::new(String::with_capacity(text.len() + 256 * self.keys.len()));
        let mut entries: Vec<&str> = Vec::new();
        let mut rest = text;
        while let Some(at) = next_entry(rest) {
            entries.push(&rest[..at]);
            rest = &rest[at..];
        }
        entries.push(rest);
        let mut entries = entries.into_iter();
        out.push_str(entries.next()?);
        let mut seen = Vec::new();
        for entry in entries {
            let id = entry.lines().find_map(|line| value(line, "id"))?.parse().ok()?;
            seen.push(id);
            match self.key(id) {
                Some(key) => push_entry(&mut out, entry, key)?,
                // What stands behind its last value may belong to the next one.
                None => out.push_str(behind(entry)),
            }
        }
        for key in self.keys.iter().filter(|key| !seen.contains(&key.id)) {
            if !out.ends_with('\n') {
                out.push('\n');
            }
            key.push_to(&mut out);
        }
        Self::parse(&out).ok().filter(|parsed| parsed.same(self)).map(|_| out)
    }
}

impl Key {
    /// As an entry of its own, an empty line before it.
    pub(super) fn push_to(&self, text: &mut String) {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n[[key]]\nid = {}\nstate = \"{}\"\nsecret = \"", self.id, self.state);
        push_base64(text, self.secret.bytes());
        text.push_str("\"\n");
    }
}

/// Where the next `[[key]]` line begins, behind the first line if that is one.
fn next_entry(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if at > 0 && line.trim_start().starts_with(ENTRY) {
            return Some(at);
        }
        at += line.len();
    }
    None
}

/// What `name = value` gives, without quotes and comment.
fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let given = line.trim_start().strip_prefix(name)?.trim_start().strip_prefix('=')?;
    Some(given.split('#').next()?.trim().trim_matches(['"', '\'']))
}

fn push_entry(out: &mut String, entry: &str, key: &Key) -> Option<()> {
    let mut stated = false;
    for line in entry.split_inclusive('\n') {
        match value(line, "state") {
            Some(old) if !stated && !old.is_empty() => {
                let equals = line.find('=')?;
                let at = equals + line[equals..].find(old)?;
                let (before, behind) = (line.get(..at.checked_sub(1)?)?, line.get(at + old.len() + 1..)?);
                let _ = write!(out, "{before}\"{}\"{behind}", key.state);
                stated = true;
            }
            _ => out.push_str(line),
        }
    }
    stated.then_some(())
}

/// The lines of an entry behind its values.
fn behind(entry: &str) -> &str {
    let mut from = entry.len();
    for line in entry.lines().rev() {
        let line = line.trim();
        if !(line.is_empty() || line.starts_with('#')) {
            break;
        }
        let before = &entry[..from];
        from = before.strip_suffix('\n').unwrap_or(before).rfind('\n').map_or(0, |at| at + 1);
    }
    &entry[from..]
}
