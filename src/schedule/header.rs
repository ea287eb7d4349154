//! The header of a job, as the scripts pack it: what they decide by, in clear. No ids and no content.

use crate::proto::v1;

const LEN: usize = 76;
const GROUP: usize = 16;

pub const FLAG_CAP: u8 = 1;
pub const FLAG_INGEST: u8 = 2;
pub const FLAG_HOLD: u8 = 4;
const FLAG_CANCEL: u8 = 8;

/// What is known of a job without opening it. Instants in ms.
#[derive(Clone, Debug)]
pub struct Header {
    pub state: u8,
    pub flags: u8,
    pub priority: u16,
    pub attempts: u16,
    /// 0: the queue's.
    pub max_attempts: u16,
    pub due: u64,
    pub created: u64,
    pub finished: u64,
    pub fence: u64,
    pub reason: u8,
    pub deadline: u64,
}

struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn number(&mut self, bytes: usize) -> Option<u64> {
        let (head, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(head.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn byte(&mut self) -> Option<u8> {
        u8::try_from(self.number(1)?).ok()
    }

    fn short(&mut self) -> Option<u16> {
        u16::try_from(self.number(2)?).ok()
    }
}

impl Header {
    /// `None` when it is none.
    pub fn parse(raw: &[u8]) -> Option<Self> {
        if raw.len() != LEN && raw.len() != LEN + GROUP {
            return None;
        }
        let mut cursor = Cursor(raw);
        let (state, flags) = (cursor.byte()?, cursor.byte()?);
        let (priority, attempts, max_attempts) = (cursor.short()?, cursor.short()?, cursor.short()?);
        let (_base, _jitter) = (cursor.number(4)?, cursor.byte()?);
        let (due, created, finished) = (cursor.number(6)?, cursor.number(6)?, cursor.number(6)?);
        let (fence, _verdict, reason) = (cursor.number(7)?, cursor.byte()?, cursor.byte()?);
        let (_window, deadline) = (cursor.number(5)?, cursor.number(6)?);
        Some(Self {
            state,
            flags,
            priority,
            attempts,
            max_attempts,
            due,
            created,
            finished,
            fence,
            reason,
            deadline,
        })
    }

    /// Somebody asked to cancel it.
    pub fn cancel_requested(&self) -> bool {
        self.flags & FLAG_CANCEL != 0
    }

    /// Why it is dead.
    pub fn dead_reason(&self) -> v1::DeadReason {
        match (self.state, self.reason) {
            (b'X', 1) => v1::DeadReason::Attempts,
            (b'X', 2) => v1::DeadReason::Failed,
            (b'X', 3) => v1::DeadReason::Expired,
            (b'X', 4) => v1::DeadReason::CapNever,
            (b'X', 5) => v1::DeadReason::CapConfig,
            _ => v1::DeadReason::Unspecified,
        }
    }
}
