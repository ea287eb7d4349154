//! Walks over records: one page a step, and a cursor that says where the next one begins.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use redis::Value;

use super::{
    keys::SessionKeys,
    limits::MESSAGE_BYTES,
    name::SessionName,
    records::{self, Record},
    reply::{self, Reply},
};
use crate::{
    error::{Error, Result},
    telemetry::{self, DecryptFailure},
};

/// Bytes of a field: a type code of up to 9, and a name of 16.
const FIELD_MAX: usize = 25;

/// Where a walk stands: Valkey's scan cursor; and when a step did not fit in a page, the last field of it that was given out
/// and where the step had ended.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Cursor {
    pub scan: u64,
    last: Vec<u8>,
    end: u64,
}

impl Cursor {
    /// "" begins.
    pub fn parse(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let malformed = || Error::bad_field("cursor", "is none that this call has given");
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| malformed())?;
        let (scan, rest) = bytes.split_first_chunk::<8>().ok_or_else(malformed)?;
        let scan = u64::from_be_bytes(*scan);
        if rest.is_empty() {
            return Ok(Self { scan, ..Self::default() });
        }
        let (end, last) = rest.split_first_chunk::<8>().ok_or_else(malformed)?;
        if !(1..=FIELD_MAX).contains(&last.len()) {
            return Err(malformed());
        }
        Ok(Self { scan, last: last.to_vec(), end: u64::from_be_bytes(*end) })
    }

    /// For the client to send back.
    pub fn encode(&self) -> String {
        let end = self.end.to_be_bytes();
        let end = if self.last.is_empty() { &[][..] } else { &end[..] };
        URL_SAFE_NO_PAD.encode([&self.scan.to_be_bytes(), end, &self.last].concat())
    }
}

/// What a client asks a walk for.
pub struct Walk {
    /// "" for all types.
    pub ty: String,
    pub cursor: Cursor,
    pub limit: usize,
    pub ids_only: bool,
}

/// One step of a walk.
pub struct Step {
    pub records: Vec<Record>,
    /// `None`: that was all.
    pub next: Option<Cursor>,
    pub corrupt: u32,
}

/// What the list script answered.
pub enum Listed {
    Step {
        scan: u64,
        fields: Vec<(Vec<u8>, Vec<u8>)>,
    },
    /// Another incarnation is live, or none.
    Moved {
        deleted: bool,
    },
    Gone,
    Lost,
}

impl Listed {
    /// Reads the script's answer.
    pub fn parse(value: Value) -> Result<Self> {
        let mut reply = Reply::parse(value)?;
        Ok(match reply.status() {
            "OK" => {
                let scan = reply.number()?;
                let mut fields = Vec::with_capacity(reply.left() / 2);
                while reply.left() > 1 {
                    let field = reply.bytes()?.unwrap_or_default();
                    fields.push((field, reply.bytes()?.unwrap_or_default()));
                }
                Self::Step { scan, fields }
            }
            "MOVED" => Self::Moved { deleted: reply.number()? == 0 },
            "GONE" => Self::Gone,
            "LOST" => Self::Lost,
            _ => return Err(reply::unexpected()),
        })
    }
}

impl Walk {
    /// Makes a page of what one step looked at: in byte order, from behind the last field given out, up to the limits.
    pub fn page(
        &self,
        keys: &SessionKeys,
        name: &SessionName,
        scan: u64,
        mut fields: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Step {
        fields.sort();
        fields.dedup_by(|a, b| a.0 == b.0);
        let code = (!self.ty.is_empty()).then(|| keys.record.type_code(&self.ty));
        // A step that ends elsewhere than the first time looked at other fields: what of it was given out is not known, and
        // comes again.
        let last_given = if scan == self.cursor.end { self.cursor.last.as_slice() } else { &[] };
        let wanted = |field: &[u8]| {
            field > last_given
                && !records::is_sentinel(field)
                && code.is_none_or(|code| field.starts_with(code.as_bytes()))
        };
        let mut step = Step { records: Vec::new(), next: None, corrupt: 0 };
        let (mut size, mut last) = (0, None);
        for (field, envelope) in fields.into_iter().filter(|(field, _)| wanted(field)) {
            let full = step.records.len() + step.corrupt as usize >= self.limit;
            let Some(last) = last.as_ref().filter(|_| full || size >= MESSAGE_BYTES) else {
                if let Some(mut record) = records::open_listed(keys, name, &field, &envelope) {
                    if self.ids_only {
                        record.value.clear();
                    }
                    size += record.value.len() + record.id.len() + 32;
                    step.records.push(record);
                } else {
                    telemetry::decrypt_failed(DecryptFailure::Corrupt);
                    step.corrupt += 1;
                }
                last = Some(field);
                continue;
            };
            step.next = Some(Cursor { scan: self.cursor.scan, last: Vec::clone(last), end: scan });
            return step;
        }
        step.next = (scan != 0).then_some(Cursor { scan, ..Cursor::default() });
        step
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{crypto::Keyring, session::records::Put};

    struct Session {
        keys: SessionKeys,
        name: SessionName,
    }

    impl Session {
        fn new() -> Self {
            let keyring = Keyring::generate().0;
            let name = SessionName::new(&keyring, "default".into(), "bot".into());
            Self { keys: SessionKeys::generate(&keyring, &name, 1).0, name }
        }

        /// As they stand in Valkey, in the order of their fields.
        fn fields(&self, count: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
            let mut fields: Vec<_> = (0..count)
                .map(|n| {
                    let id = n.to_string();
                    let field = self.keys.record.field("session", &id).as_bytes().to_vec();
                    let put = Put { ty: "session".into(), id, kind: 0, value: "x".into(), if_revision: None };
                    (field, records::seal(&self.keys, &self.name, &put, 1))
                })
                .collect();
            fields.sort();
            fields
        }

        fn page(&self, cursor: &str, scan: u64, fields: &[(Vec<u8>, Vec<u8>)]) -> (Vec<String>, String) {
            let cursor = Cursor::parse(cursor).unwrap();
            let walk = Walk { ty: String::new(), cursor, limit: 3, ids_only: true };
            let step = walk.page(&self.keys, &self.name, scan, fields.to_vec());
            assert_eq!(step.corrupt, 0);
            let ids = step.records.into_iter().map(|record| record.id).collect();
            (ids, step.next.map(|next| next.encode()).unwrap_or_default())
        }
    }

    #[test]
    fn a_step_that_is_cut_goes_on_behind_what_was_given_out() {
        let session = Session::new();
        let fields = session.fields(8);
        let (mut all, mut cursor) = (Vec::new(), String::new());
        for given in [3, 3, 2] {
            let (ids, next) = session.page(&cursor, 77, &fields);
            assert_eq!(ids.len(), given);
            all.extend(ids);
            cursor = next;
        }
        all.sort();
        assert_eq!(all, ["0", "1", "2", "3", "4", "5", "6", "7"]);
        assert_eq!(Cursor::parse(&cursor).unwrap(), Cursor { scan: 77, ..Cursor::default() });
        assert_eq!(session.page(&cursor, 0, &[]), (vec![], String::new()));
    }

    /// Fields that were deleted in between make the same step reach further: what it meets there was never given out, though it
    /// may stand before what was.
    #[test]
    fn a_cut_step_that_ends_elsewhere_the_second_time_is_given_out_from_its_beginning() {
        let session = Session::new();
        let fields = session.fields(6);
        let (_, cursor) = session.page("", 77, &fields[2..]);
        let (ids, _) = session.page(&cursor, 99, &fields[..3]);
        assert_eq!(ids.len(), 3, "the first two among them");
    }

    #[test]
    fn a_cursor_of_another_shape_is_refused() {
        for text in ["!", "AAAA", "AAAAAAAAAAAAAA", &"A".repeat(80)] {
            assert!(Cursor::parse(text).is_err(), "{text}");
        }
    }
}
