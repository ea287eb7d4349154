//! A whole session in memory, on its way in or out, and what stands in its way.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

use super::{
    names::CREDS,
    value::{self, Stored},
};
use crate::{
    cli::{
        Format,
        outcome::{Failed, NO, Outcome, USAGE},
        output::{self, bytes, shown},
    },
    proto::v1::Attributes,
};

/// A record, and the file (or key) it came from or goes to.
pub struct Item {
    pub source: String,
    pub ty: String,
    pub id: String,
    pub stored: Stored,
}

impl Item {
    /// What it counts in a commit.
    pub fn size(&self) -> usize {
        self.ty.len() + self.id.len() + self.stored.value.len()
    }
}

/// What is read, and what of it cannot be taken: all of that is said at once, and then nothing is written.
#[derive(Default)]
pub struct Gathered {
    pub items: Vec<Item>,
    pub skipped: Vec<String>,
    refused: BTreeMap<String, String>,
}

/// A session that can be imported.
pub struct Bundle {
    pub items: Vec<Item>,
    pub skipped: Vec<String>,
    pub attributes: Attributes,
}

/// Names that are passed over; one that ends in `*` stands for all that begin so.
pub struct Skip {
    patterns: Vec<(String, bool)>,
}

impl Skip {
    pub fn new(names: Vec<String>) -> Self {
        Self { patterns: names.into_iter().map(|name| (name, false)).collect() }
    }

    /// Whether `name` is passed over.
    pub fn takes(&mut self, name: &str) -> bool {
        let mut taken = false;
        for (pattern, used) in &mut self.patterns {
            let fits = pattern.strip_suffix('*').map_or(pattern == name, |begin| name.starts_with(begin));
            *used |= fits;
            taken |= fits;
        }
        taken
    }

    /// A name that nothing has is a slip of the pen.
    pub fn check(&self) -> Outcome {
        match self.patterns.iter().find(|(_, used)| !used) {
            Some((pattern, _)) => {
                Err(Failed::new(USAGE, format!("--skip {}: nothing has that name", shown(pattern))))
            }
            None => Ok(()),
        }
    }
}

impl Gathered {
    /// It cannot be taken, and why.
    pub fn refuse(&mut self, source: impl Into<String>, why: impl Into<String>) {
        self.refused.entry(source.into()).or_insert_with(|| why.into());
    }

    /// The same for several.
    pub fn refuse_all<'a>(&mut self, sources: impl IntoIterator<Item = &'a str>, why: &str) {
        for source in sources {
            self.refuse(source, why);
        }
    }

    /// Judges the whole. `creds_source` is where the creds would be. With `--json`, what is refused is data too.
    pub fn judge(mut self, place: &str, creds_source: &str, format: Format) -> Outcome<Bundle> {
        self.refuse_collisions();
        let creds = self.items.iter().find(|item| (item.ty.as_str(), item.id.as_str()) == (CREDS, CREDS));
        let attributes = match creds.map(|creds| (creds.source.clone(), value::attributes(&creds.stored))) {
            Some((_, Ok(attributes))) => attributes,
            Some((source, Err(why))) => {
                self.refuse(source, why);
                Attributes::default()
            }
            None => {
                self.refuse(
                    creds_source,
                    "missing: without it these are no credentials that a bot could use",
                );
                Attributes::default()
            }
        };
        if self.refused.is_empty() {
            return Ok(Bundle { items: self.items, skipped: self.skipped, attributes });
        }
        if format.json {
            output::json(&Refused { refused: &self.refused })?;
        }
        Err(refusal(place, &self.refused))
    }

    fn refuse_collisions(&mut self) {
        let mut sources: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for item in &self.items {
            sources.entry((&item.ty, &item.id)).or_default().push(&item.source);
        }
        let colliding: Vec<(String, String)> = sources
            .into_values()
            .filter(|sources| sources.len() > 1)
            .flat_map(|sources| {
                let why = |one: &str| {
                    let others: Vec<_> =
                        sources.iter().filter(|other| **other != one).map(|o| shown(o)).collect();
                    format!("the same record as {}", others.join(", "))
                };
                sources.iter().map(|one| ((*one).to_owned(), why(one))).collect::<Vec<_>>()
            })
            .collect();
        for (source, why) in colliding {
            self.refuse(source, why);
        }
    }
}

/// Files (or keys) and why each cannot be taken.
#[derive(Serialize)]
struct Refused<'a> {
    refused: &'a BTreeMap<String, String>,
}

/// Says everything that stands in the way.
pub fn refusal(place: &str, refused: &BTreeMap<String, String>) -> Failed {
    let mut text = format!("{} of {} cannot be taken; nothing was written:", refused.len(), shown(place));
    for (source, why) in refused {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n  {}: {why}", shown(source));
    }
    Failed::new(NO, text)
}

/// What of a session is moved, by type.
#[derive(Serialize)]
pub struct Summary {
    pub records: usize,
    pub bytes: usize,
    pub types: Vec<TypeSummary>,
}

/// Records of one type; `bytes` is what they count in a commit.
#[derive(Serialize)]
pub struct TypeSummary {
    pub r#type: String,
    pub records: usize,
    pub bytes: usize,
}

impl Summary {
    pub fn of(items: &[Item]) -> Self {
        let mut types: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for item in items {
            let of_type = types.entry(&item.ty).or_default();
            of_type.0 += 1;
            of_type.1 += item.size();
        }
        Self {
            records: items.len(),
            bytes: items.iter().map(Item::size).sum(),
            types: types
                .into_iter()
                .map(|(ty, (records, bytes))| TypeSummary { r#type: ty.to_owned(), records, bytes })
                .collect(),
        }
    }

    /// As a table, the sum last.
    pub fn print(&self) -> Outcome {
        let row =
            |ty: &str, records: usize, size: usize| vec![shown(ty), records.to_string(), bytes(size as u64)];
        let mut rows: Vec<_> = self.types.iter().map(|t| row(&t.r#type, t.records, t.bytes)).collect();
        rows.push(row("all", self.records, self.bytes));
        output::table(&["type", "records", "size"], rows)
    }
}
