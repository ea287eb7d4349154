//! Where values come from: flags over environment over file over defaults, each value with its origin.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use figment2::{
    Figment, Metadata, Profile, Provider,
    providers::{Format as _, Toml},
    value::{Dict, Map, Value},
};

use super::{
    ConfigError,
    table::{self, From, SETTINGS},
};

/// The flags of `serve`, as the table has them.
#[derive(Clone, Debug, Default)]
pub struct Flags(BTreeMap<&'static str, String>);

impl Flags {
    /// The flags given as pairs, for tests and embedding.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let known = |(name, value): (&str, &str)| Some((table::find(name)?.name, value.to_owned()));
        Self(pairs.into_iter().filter_map(known).collect())
    }

    /// Gives a flag a value, over what was given before.
    pub fn set(&mut self, name: &str, value: &str) {
        if let Some(setting) = table::find(name) {
            self.0.insert(setting.name, value.to_owned());
        }
    }

    /// What a flag was given.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        SETTINGS.iter().fold(command, |command, setting| {
            let mut help = setting.help.replace('`', "");
            if let Some(env) = setting.env() {
                help = format!("{help} [env: {env}]");
            }
            let arg = Arg::new(setting.name)
                .long(setting.name)
                .help(format!("{help} [default: {}]", setting.default.replace('`', "")));
            command.arg(if setting.is_switch() {
                arg.action(ArgAction::SetTrue)
            } else {
                arg.value_name(setting.value).action(ArgAction::Set)
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for setting in SETTINGS {
            if setting.is_switch() {
                if matches.get_flag(setting.name) {
                    self.0.insert(setting.name, "true".to_owned());
                }
            } else if let Some(value) = matches.get_one::<String>(setting.name) {
                self.0.insert(setting.name, value.clone());
            }
        }
        Ok(())
    }
}

/// Where a value came from; a greater one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Nobody gave it.
    Default,
    /// The TOML file.
    File,
    /// `PANNIER_*`.
    Environment,
    /// The command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
            Self::Flag => "flag",
        })
    }
}

impl Origin {
    const ALL: [Self; 4] = [Self::Default, Self::File, Self::Environment, Self::Flag];
}

/// What was given, before any check of the values.
#[derive(Debug)]
pub struct Given(BTreeMap<&'static str, (String, Origin)>);

impl Given {
    /// Reads all places.
    pub fn collect(flags: &Flags, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let named = |name: &str| Value::from(name);
        let environment: Dict = SETTINGS
            .iter()
            .filter_map(|setting| {
                let value = environment(&setting.env()?).filter(|value| !value.is_empty())?;
                Some((setting.name.to_owned(), named(&value)))
            })
            .collect();
        let flags: Dict =
            flags.0.iter().map(|(name, value)| ((*name).to_owned(), named(value.as_str()))).collect();
        let file = flags.get("config").or_else(|| environment.get("config")).and_then(Value::as_str);
        let mut figment = Figment::new();
        if let Some(path) = file {
            figment = figment.merge(Layer(Origin::File, read_file(Path::new(path))?));
        }
        figment = figment.merge(Layer(Origin::Environment, environment)).merge(Layer(Origin::Flag, flags));

        let mut given = BTreeMap::new();
        for setting in SETTINGS {
            let Ok(value) = figment.find_value(setting.name) else { continue };
            let name = figment.find_metadata(setting.name).map(|metadata| metadata.name.to_string());
            let origin = Origin::ALL.into_iter().find(|origin| Some(origin.to_string()) == name);
            given.insert(setting.name, (text_of(setting.name, &value)?, origin.unwrap_or(Origin::Default)));
        }
        Ok(Self(given))
    }

    /// The value of a setting, if somebody gave it.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|(value, _)| value.as_str())
    }

    /// Who gave it.
    pub fn origin(&self, name: &str) -> Origin {
        self.0.get(name).map_or(Origin::Default, |(_, origin)| *origin)
    }
}

/// The values of one place.
struct Layer(Origin, Dict);

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.0.to_string())
    }

    fn data(&self) -> figment2::error::Result<Map<Profile, Dict>> {
        Ok(Map::from([(Profile::Default, self.1.clone())]))
    }
}

fn read_file(path: &Path) -> Result<Dict, ConfigError> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| ConfigError(format!("--config {shown}: {error}")))?;
    // toml's own display quotes the line, and that may be the one with a password.
    if let Err(error) = toml::from_str::<toml::Table>(&text) {
        let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].lines().count().max(1));
        return Err(ConfigError(format!("--config {shown}, line {line}: {}", error.message())));
    }
    let data = Toml::string(&text)
        .data()
        .map_err(|_| ConfigError(format!("--config {shown}: it cannot be read as a table of settings")))?;
    let dict = data.into_values().next().unwrap_or_default();
    for key in dict.keys() {
        match table::find(key) {
            Some(setting) if setting.from == From::Everywhere => {}
            Some(setting) => {
                return Err(ConfigError(format!(
                    "--config {shown}: `{}` cannot be in the file; give it as --{}",
                    setting.name, setting.name
                )));
            }
            None => {
                let allowed = SETTINGS.iter().filter(|s| s.from == From::Everywhere).map(|s| s.name);
                let hint = table::suggest(key, allowed).map_or_else(
                    || "see docs/configuration.md".to_owned(),
                    |name| format!("did you mean `{name}`?"),
                );
                return Err(ConfigError(format!("--config {shown}: unknown key `{key}`; {hint}")));
            }
        }
    }
    Ok(dict)
}

fn text_of(name: &str, value: &Value) -> Result<String, ConfigError> {
    Ok(match value {
        Value::String(_, text) => text.clone(),
        Value::Char(_, char) => char.to_string(),
        Value::Bool(_, bool) => bool.to_string(),
        Value::Num(_, num) => match (num.to_i128(), num.to_u128(), num.to_f64()) {
            (Some(num), _, _) => num.to_string(),
            (_, Some(num), _) => num.to_string(),
            (_, _, num) => num.unwrap_or_default().to_string(),
        },
        Value::Array(_, items) => {
            items.iter().map(|item| text_of(name, item)).collect::<Result<Vec<_>, _>>()?.join(",")
        }
        Value::Empty(..) | Value::Dict(..) => {
            return Err(ConfigError(format!("{name}: must be a single value")));
        }
    })
}
