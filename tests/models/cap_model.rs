//! What a cap is in the mind of its user: a list of sends.

use std::collections::BTreeMap;

use pannier::proto::v1::{confirm_response::Outcome as Confirmed, refund_response::Outcome as Refunded};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Fixed,
    Rolling,
    Gcra,
    Unique,
}

#[derive(Clone, Debug)]
pub struct Send {
    pub id: String,
    pub at: u64,
    pub n: u64,
    pub recipient: String,
    /// When it is free again, unless it is confirmed.
    pub lapses: Option<u64>,
    pub refunded: bool,
    /// Of GCRA: from which instant on it fills the bucket, µs.
    pub base: u64,
    /// Of `unique`: the send before it to the same recipient.
    pub before: u64,
    /// Did it take anything?
    pub took: bool,
    pub first: (i64, i64, u64),
}

impl Send {
    pub fn state(&self, now: u64) -> &'static str {
        match self.lapses {
            _ if self.refunded => "refunded",
            Some(at) if now >= at => "lapsed",
            Some(_) => "reserved",
            None => "committed",
        }
    }
}

/// One counter.
pub struct Cap {
    pub kind: Kind,
    pub limit: u64,
    /// ms; of GCRA the period.
    pub window: u64,
    pub sends: Vec<Send>,
    /// Of GCRA: when the bucket is whole, µs, with what is reserved.
    pub whole: u64,
    /// Of `unique`: the last committed send to each.
    pub last: BTreeMap<String, u64>,
}

/// Limit, used, reset, wait (None: never).
pub type Standing = (i64, i64, u64, Option<u64>);

impl Cap {
    pub fn start(&self, at: u64) -> u64 {
        at - at % self.window
    }

    /// What counts now: until when, how many.
    pub fn counted(&self, now: u64) -> Vec<(u64, u64)> {
        let alive = self.sends.iter().filter(|send| ["reserved", "committed"].contains(&send.state(now)));
        match self.kind {
            Kind::Fixed => {
                let of_window = alive.filter(|send| self.start(send.at) == self.start(now));
                of_window
                    .map(|send| (send.lapses.unwrap_or(u64::MAX).min(self.start(now) + self.window), send.n))
                    .collect()
            }
            Kind::Rolling => {
                let inside = alive.filter(|send| send.at + self.window > now);
                inside
                    .map(|send| (send.lapses.unwrap_or(u64::MAX).min(send.at + self.window), send.n))
                    .collect()
            }
            Kind::Gcra => unreachable!(),
            Kind::Unique => {
                let mut until: BTreeMap<&str, u64> = BTreeMap::new();
                for (recipient, at) in &self.last {
                    if at + self.window > now {
                        until.insert(recipient, at + self.window);
                    }
                }
                for send in
                    alive.filter(|send| send.lapses.is_some() && send.took && send.at + self.window > now)
                {
                    // A recipient has its place until the last of what holds it has ended.
                    let end = send.lapses.unwrap().min(send.at + self.window);
                    let known = until.entry(&send.recipient).or_insert(0);
                    *known = (*known).max(end);
                }
                until.into_values().map(|until| (until, 1)).collect()
            }
        }
    }

    /// What has lapsed by now is given back to the bucket as it was at that moment.
    pub fn settle(&mut self, now: u64) {
        if self.kind != Kind::Gcra {
            return;
        }
        let mut lapsed: Vec<&mut Send> =
            self.sends.iter_mut().filter(|send| send.state(now) == "lapsed" && send.base > 0).collect();
        lapsed.sort_by_key(|send| send.lapses);
        for send in lapsed {
            let full = send.n * self.window * 1000;
            let rest = (send.base + full).saturating_sub(send.lapses.unwrap() * 1000).min(full);
            self.whole -= rest;
            send.base = 0;
        }
    }

    pub fn standing(&self, now: u64, n: u64, recipient: &str) -> Standing {
        let limit = i64::try_from(self.limit).unwrap();
        if self.kind == Kind::Gcra {
            return self.bucket(now, n);
        }
        let mut counted = self.counted(now);
        counted.sort_unstable();
        let used: u64 = counted.iter().map(|(_, n)| n).sum();
        let end = self.start(now) + self.window;
        let reset = match self.kind {
            Kind::Fixed => end,
            _ => counted.first().map_or(0, |(until, _)| *until),
        };
        let used_out = i64::try_from(used).unwrap();
        if self.kind == Kind::Unique {
            let alive = self.sends.iter().any(|send| {
                send.recipient == recipient
                    && send.took
                    && send.state(now) == "reserved"
                    && send.at + self.window > now
            });
            if alive || self.last.get(recipient).is_some_and(|at| at + self.window > now) {
                return (limit, used_out, reset, Some(0));
            }
        }
        let n = if self.kind == Kind::Unique { 1 } else { n };
        if n > self.limit {
            return (limit, used_out, reset, None);
        }
        let mut left = used;
        let mut wait = 0;
        for (until, units) in counted {
            if left + n <= self.limit {
                break;
            }
            left -= units;
            wait = until - now;
        }
        (limit, used_out, reset, Some(wait))
    }

    pub fn bucket(&self, now: u64, n: u64) -> Standing {
        let (period, us) = (self.window * 1000, now * 1000);
        let level = self.whole.saturating_sub(us);
        let used = i64::try_from(level.div_ceil(period)).unwrap();
        let limit = i64::try_from(self.limit).unwrap();
        let reset = if level > 0 { self.whole.div_ceil(1000) } else { 0 };
        if n > self.limit {
            return (limit, used, reset, None);
        }
        // Millisecond after millisecond, as a user would try it.
        let mut reserved: Vec<&Send> =
            self.sends.iter().filter(|send| send.state(now) == "reserved" && send.base > 0).collect();
        reserved.sort_by_key(|send| send.lapses);
        let mut whole = self.whole;
        for wait in 0.. {
            let at = now + wait;
            while reserved.first().is_some_and(|send| send.lapses.unwrap() <= at) {
                let send = reserved.remove(0);
                let full = send.n * period;
                whole -= (send.base + full).saturating_sub(send.lapses.unwrap() * 1000).min(full);
            }
            if whole.saturating_sub(at * 1000) + n * period <= self.limit * period {
                return (limit, used, reset, Some(wait));
            }
        }
        unreachable!()
    }

    pub fn count(&mut self, now: u64, n: u64, recipient: &str, id: &str, lapses: Option<u64>) {
        // Of `unique`, no two sends to one recipient have the same instant.
        let after_last = self.last.get(recipient).map_or(0, |at| at + 1);
        let mut send = Send {
            id: id.into(),
            at: if self.kind == Kind::Unique { now.max(after_last) } else { now },
            n,
            recipient: recipient.into(),
            lapses,
            refunded: false,
            base: 0,
            before: 0,
            took: true,
            first: (0, 0, 0),
        };
        match self.kind {
            Kind::Gcra => {
                send.base = self.whole.max(now * 1000);
                self.whole = send.base + n * self.window * 1000;
            }
            Kind::Unique if lapses.is_none() => {
                send.before = self.last.insert(recipient.into(), send.at).unwrap_or(0);
            }
            _ => {}
        }
        self.sends.push(send);
        let (limit, used, reset, _) = self.standing(now, 1, "nobody at all");
        self.sends.last_mut().unwrap().first = (limit, used, reset);
    }

    pub fn find(&mut self, id: &str) -> Option<&mut Send> {
        self.sends.iter_mut().rev().find(|send| send.id == id)
    }

    pub fn confirm(&mut self, now: u64, id: &str) -> Confirmed {
        let (kind, window) = (self.kind, self.window);
        let Some(send) = self.find(id) else { return Confirmed::Unknown };
        match send.state(now) {
            "committed" => Confirmed::Confirmed,
            "reserved" => {
                send.lapses = None;
                let (recipient, at) = (send.recipient.clone(), send.at);
                if kind == Kind::Unique && at + window > now {
                    let before = self.last.get(&recipient).copied().unwrap_or(0);
                    let at = if at == before { at + 1 } else { at };
                    let send = self.find(id).unwrap();
                    (send.before, send.at) = (before, at);
                    self.last.insert(recipient, before.max(at));
                }
                Confirmed::Confirmed
            }
            _ => Confirmed::Lapsed,
        }
    }

    pub fn refund(&mut self, now: u64, id: &str) -> Refunded {
        let (kind, period) = (self.kind, self.window * 1000);
        let Some(send) = self.find(id) else { return Refunded::Unknown };
        match send.state(now) {
            "refunded" => return Refunded::Refunded,
            "lapsed" => return Refunded::Lapsed,
            _ => {}
        }
        let was_committed = send.state(now) == "committed";
        send.refunded = true;
        let send = send.clone();
        match kind {
            Kind::Gcra => {
                let full = send.n * period;
                self.whole =
                    self.whole.saturating_sub((send.base + full).saturating_sub(now * 1000).min(full));
            }
            Kind::Unique if was_committed && self.last.get(&send.recipient) == Some(&send.at) => {
                if send.before > 0 {
                    self.last.insert(send.recipient, send.before);
                } else {
                    self.last.remove(&send.recipient);
                }
            }
            _ => {}
        }
        Refunded::Refunded
    }
}
