//! Deleting, restoring, breaking a lease.

use clap::Args;

use super::{
    Context,
    view::{Archive, Session},
};
use crate::{
    cli::{
        outcome::{Failed, NO, Outcome},
        output::{self, shown},
    },
    proto::v1::{self, delete_session_request::Mode},
};

/// Deletes a session: an archive for 7 days, or with --shred at once and for good. Its bot loses it.
#[derive(Args, Debug)]
pub struct Delete {
    session: String,
    /// Unlink records and keys at once, with every archive.
    #[arg(long)]
    shred: bool,
    /// Only this incarnation; with --shred it may be an archive's.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    incarnation: u64,
    /// Do not ask for the name.
    #[arg(long)]
    yes: bool,
}

/// Brings an archive back.
#[derive(Args, Debug)]
pub struct Restore {
    session: String,
    /// Which one; without it the newest.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    incarnation: u64,
    /// Turn the live session of that name into an archive instead of refusing.
    #[arg(long)]
    replace: bool,
}

/// Takes the lease from whoever holds it: its next write is refused.
#[derive(Args, Debug)]
pub struct BreakLease {
    session: String,
    /// Do not ask for the name.
    #[arg(long)]
    yes: bool,
}

impl Delete {
    pub async fn run(self, mut context: Context) -> Outcome {
        let what = if self.shred {
            "This destroys the session and its keys for good, archives too: the bot must pair again"
        } else {
            "This deletes the session; `pannier sessions restore` brings it back within 7 days"
        };
        output::confirm(self.yes, what, &self.session)?;
        let mode = if self.shred { Mode::Shred } else { Mode::Soft };
        let request = v1::DeleteSessionRequest {
            namespace: context.namespace.clone(),
            session: self.session.clone(),
            mode: mode.into(),
            incarnation: self.incarnation,
        };
        let answer = context.client.delete_session(context.target.request(request)).await?.into_inner();
        if !answer.deleted {
            return Err(Failed::new(NO, "there was nothing to delete"));
        }
        match answer.archive.map(Archive::from) {
            Some(archive) => output::note(&format!(
                "{} is an archive now (incarnation {}, {} records) until {}",
                shown(&self.session),
                archive.incarnation,
                archive.records,
                archive.purge_at.as_deref().unwrap_or("its purge")
            )),
            None => output::note(&format!("{} is gone for good", shown(&self.session))),
        }
        output::note_of_oldest(answer.oldest_archive_dropped);
        Ok(())
    }
}

impl Restore {
    pub async fn run(self, mut context: Context) -> Outcome {
        let request = v1::RestoreSessionRequest {
            namespace: context.namespace.clone(),
            session: self.session.clone(),
            incarnation: self.incarnation,
            replace: self.replace,
        };
        let answer = context.client.restore_session(context.target.request(request)).await?.into_inner();
        if let Some(session) = answer.session.map(Session::from) {
            output::note(&format!(
                "{} is back with {} records, as of its revision {}",
                shown(&self.session),
                session.records,
                session.revision
            ));
        }
        output::note_of_oldest(answer.oldest_archive_dropped);
        Ok(())
    }
}

impl BreakLease {
    pub async fn run(self, mut context: Context) -> Outcome {
        output::confirm(
            self.yes,
            "The bot that holds the session loses it: its next write is refused",
            &self.session,
        )?;
        let request = v1::BreakLeaseRequest {
            namespace: context.namespace.clone(),
            session: self.session.clone(),
            fence: 0,
        };
        let answer = context.client.break_lease(context.target.request(request)).await?.into_inner();
        output::note(if answer.broken { "the lease is broken" } else { "nobody held it" });
        Ok(())
    }
}
