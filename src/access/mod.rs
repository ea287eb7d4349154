//! Who may do what: tokens and their scopes, and one rule for every RPC.
//!
//! A rule is read off the protos: which service an RPC belongs to, and where its requests name their namespace. The server
//! applies it to every call before a handler sees anything of it, so that no handler can forget to.

mod body;
mod file;
mod grant;
mod rules;
mod scope;
mod tokens;

pub use self::{
    body::{Checked, Denial},
    file::{Entry, TokenFile, check_name},
    grant::Grant,
    rules::{Need, Rule, rule},
    scope::{Scopes, Service},
    tokens::{Tokens, new_token},
};
