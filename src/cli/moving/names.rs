//! What record a file of `useMultiFileAuthState` holds. Baileys names it `<type>-<id>.json`, with `__` for `/` and `-` for `:`,
//! which cannot be turned back by itself: what an id of the type looks like decides, and where that leaves a doubt, nobody guesses.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// The record type, and the id, of the credentials.
pub const CREDS: &str = "creds";
/// The longest name that file systems take.
pub const NAME_MAX: usize = 255;
/// Endings of files that somebody left behind.
const LEFTOVERS: [&str; 7] = [".tmp", ".temp", ".part", ".bak", ".old", ".swp", "~"];

/// What ids of a type look like.
#[derive(Clone, Copy)]
enum Shape {
    /// `17`
    Number,
    /// `<user>[_<agent>][.<device>]`, a Signal address.
    Address,
    /// `<group>::<user>[_<agent>]::<device>`
    SenderKey,
    /// Base64, padded.
    Base64,
    /// `critical_unblock_low`
    Word,
    /// `<user>`
    User,
    /// `<user>` or `<user>_reverse`
    Mapping,
    /// `<user>[:<device>]@<server>`, or a group.
    Jid,
    /// That, or `__index`.
    Token,
}

/// The record types of Baileys up to 7.0.0-rc14.
const TYPES: [(&str, Shape); 10] = [
    ("pre-key", Shape::Number),
    ("session", Shape::Address),
    ("sender-key", Shape::SenderKey),
    ("sender-key-memory", Shape::Jid),
    ("app-state-sync-key", Shape::Base64),
    ("app-state-sync-version", Shape::Word),
    ("lid-mapping", Shape::Mapping),
    ("device-list", Shape::User),
    ("tctoken", Shape::Token),
    ("identity-key", Shape::Address),
];

/// A record's type and id.
pub type Name = (String, String);

/// The file in which `useMultiFileAuthState` looks for a record.
pub fn file_name(ty: &str, id: &str) -> String {
    if (ty, id) == (CREDS, CREDS) {
        return "creds.json".to_owned();
    }
    format!("{ty}-{id}.json").replace('/', "__").replace(':', "-")
}

/// The record that a file holds.
///
/// # Errors
///
/// Why that is not certain.
pub fn of_file(file: &str) -> Result<Name, String> {
    let Some(stem) = file.strip_suffix(".json") else { return Err(stranger(file)) };
    let (ty, id) = of_key(stem, &['-'])?;
    if file_name(&ty, &id) == file { Ok((ty, id)) } else { Err(stranger(file)) }
}

/// The record of a name `creds` or `<type>-<id>`, whose id may stand as it is or as in a file's name. `separators`: what may
/// stand behind the type.
///
/// # Errors
///
/// Why that is not certain.
pub fn of_key(key: &str, separators: &[char]) -> Result<Name, String> {
    if key == CREDS {
        return Ok((CREDS.to_owned(), CREDS.to_owned()));
    }
    let of_type = |(ty, shape): &(&'static str, Shape)| {
        let rest = key.strip_prefix(ty)?.strip_prefix(separators)?;
        Some((*ty, *shape, rest))
    };
    let candidates: Vec<_> = TYPES.iter().filter_map(of_type).collect();
    let mut fitting =
        candidates.iter().filter_map(|(ty, shape, rest)| Some((*ty, recover(*shape, rest)?.into_owned())));
    match (fitting.next(), fitting.next()) {
        (Some((ty, id)), None) => Ok((ty.to_owned(), id)),
        (Some((one, _)), Some((other, _))) => Err(format!("ambiguous: a {one} or a {other}")),
        (None, _) => Err(candidates.iter().max_by_key(|(ty, ..)| ty.len()).map_or_else(
            || stranger(key),
            |(ty, _, rest)| {
                if rest.contains('-') || rest.contains("__") {
                    format!("ambiguous: it may stand for several ids, none of which is one of a {ty}")
                } else {
                    format!("that is no id of a {ty}")
                }
            },
        )),
    }
}

fn stranger(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    // `creds.json.tmp`, `creds.json.1234`, `.creds.json.swp`, `creds.json~`
    let left = name.contains(".json.") || LEFTOVERS.iter().any(|ending| name.ends_with(ending));
    let what = if left { "a leftover temporary file" } else { "not a record of Baileys" };
    what.to_owned()
}

/// The id behind `text`, if it is one of that shape.
fn recover(shape: Shape, text: &str) -> Option<Cow<'_, str>> {
    let as_it_is = |fits: bool| fits.then_some(Cow::Borrowed(text));
    match shape {
        Shape::Number => as_it_is(is_number(text)),
        Shape::Address => as_it_is(is_address(text)),
        Shape::Word => {
            as_it_is(text.split('_').all(|w| !w.is_empty() && w.bytes().all(|b| b.is_ascii_lowercase())))
        }
        Shape::User => as_it_is(is_user(text)),
        Shape::Mapping => as_it_is(is_user(text.strip_suffix("_reverse").unwrap_or(text))),
        Shape::Base64 => {
            let id = text.replace("__", "/");
            let bytes = STANDARD.decode(&id).ok()?;
            (!bytes.is_empty() && STANDARD.encode(bytes) == id).then_some(Cow::Owned(id))
        }
        Shape::SenderKey => {
            let separator = if text.contains("::") { "::" } else { "--" };
            let mut parts = text.rsplitn(3, separator);
            let (device, user, group) = (parts.next()?, parts.next()?, parts.next()?);
            let fits = is_number(device) && is_agent(user) && recover(Shape::Jid, group)? == group;
            fits.then(|| Cow::Owned(format!("{group}::{user}::{device}")))
        }
        Shape::Jid => jid(text),
        Shape::Token => {
            if text == "__index" {
                as_it_is(true)
            } else {
                jid(text)
            }
        }
    }
}

/// In the id of a group a `-` stands for itself; elsewhere it can only have been the `:` before a device.
fn jid(text: &str) -> Option<Cow<'_, str>> {
    let (user, server) = text.split_once('@')?;
    let host = server.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase()));
    if !host || server == "interop" {
        return None;
    }
    if server == "g.us" {
        let (founder, time) = user.split_once('-').unwrap_or((user, "0"));
        return (is_number(founder) && is_number(time)).then_some(Cow::Borrowed(text));
    }
    match user.split_once([':', '-']) {
        None => is_address(user).then_some(Cow::Borrowed(text)),
        Some((user, device)) => {
            (is_address(user) && is_number(device)).then(|| Cow::Owned(format!("{user}:{device}@{server}")))
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_user(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// `<user>[_<agent>]`
fn is_agent(text: &str) -> bool {
    text.split_once('_').map_or_else(|| is_user(text), |(user, agent)| is_user(user) && is_number(agent))
}

/// `<user>[_<agent>][.<device>]`
fn is_address(text: &str) -> bool {
    text.split_once('.').map_or_else(|| is_agent(text), |(user, device)| is_agent(user) && is_number(device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_finds_its_ids_again() {
        for (ty, id) in [
            ("creds", "creds"),
            ("pre-key", "5000"),
            ("session", "4915112345678.0"),
            ("session", "99123_1.17"),
            ("sender-key", "120363041234567890@g.us::99123_1::0"),
            ("sender-key", "4915112345678-1512345678@g.us::4917::12"),
            ("sender-key", "status@broadcast::4917::0"),
            ("sender-key-memory", "4915112345678-1512345678@g.us"),
            ("sender-key-memory", "status@broadcast"),
            ("app-state-sync-key", "AAAA/+//"),
            ("app-state-sync-key", "AAAAAJ3C"),
            ("app-state-sync-key", "/w=="),
            ("app-state-sync-version", "critical_unblock_low"),
            ("lid-mapping", "4915112345678"),
            ("lid-mapping", "99123_reverse"),
            ("device-list", "99123"),
            ("tctoken", "__index"),
            ("tctoken", "4915112345678@s.whatsapp.net"),
            ("tctoken", "4915112345678:3@s.whatsapp.net"),
            ("tctoken", "99123@hosted.lid"),
            ("identity-key", "4915112345678_128.99"),
        ] {
            let name = (ty.to_owned(), id.to_owned());
            assert_eq!(of_file(&file_name(ty, id)), Ok(name.clone()), "{ty} {id}");
            if ty != CREDS {
                assert_eq!(of_key(&format!("{ty}-{id}"), &['-', ':']), Ok(name.clone()), "as it is");
                assert_eq!(of_key(&format!("{ty}:{id}"), &['-', ':']), Ok(name), "behind a colon");
            }
        }
    }

    #[test]
    fn what_is_not_certain_is_refused_with_its_reason() {
        for (file, why) in [
            ("session-49-151.0.json", "ambiguous"),
            ("session-49__151.0.json", "ambiguous"),
            ("session-a:b.0.json", "no id"),
            ("pre-key-x.json", "no id"),
            ("sender-key-120363@g.us.json", "no id"),
            ("sender-key-x--y--z--0.json", "ambiguous"),
            ("app-state-sync-key-AA_A.json", "no id"),
            ("app-state-sync-key-AAB=.json", "no id"),
            ("tctoken-2-491@interop.json", "ambiguous"),
            ("creds.json.tmp", "leftover"),
            ("creds.json.4711", "leftover"),
            ("tmp.part", "leftover"),
            ("creds.json~", "leftover"),
            ("notes.json", "not a record"),
            ("baileys.log", "not a record"),
            ("creds-2.json", "not a record"),
            (".json", "not a record"),
        ] {
            let refused = of_file(file).unwrap_err();
            assert!(refused.contains(why), "{file}: {refused}");
        }
        assert!(of_file("tctoken-49:3@lid.json").is_err(), "Baileys writes no colon");
    }
}
