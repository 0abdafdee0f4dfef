//! The right to send a member one request, given back by dropping it.

use crate::member::Member;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// A unit of a member's concurrency. Hold it for as long as the request lasts; dropping it frees the unit or hands it to
/// whoever waits longest in the pool's queue.
#[must_use = "dropping a slot gives it back"]
pub struct Slot {
    member: Arc<Member>,
}

impl Slot {
    /// The member to send the request to.
    pub fn member(&self) -> &Arc<Member> {
        &self.member
    }

    /// Takes a unit of `member`, if one is free.
    pub(crate) fn acquire(member: &Arc<Member>) -> Option<Self> {
        member.try_enter().then(|| Self {
            member: member.clone(),
        })
    }

    /// Wraps a unit that is already counted and passes from one request to the next.
    pub(crate) fn inherit(member: &Arc<Member>) -> Self {
        member.count_request();
        Self {
            member: member.clone(),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let member = &self.member;
        if member.waiting.load(SeqCst) > 0 {
            match member.pool.upgrade() {
                Some(pool) => pool.hand_over(member),
                None => member.leave(),
            }
            return;
        }
        member.leave();
        // Somebody may have begun to wait since the first look and have found the member still full. Either they see what
        // was just freed or it is seen here that they wait.
        if member.waiting.load(SeqCst) > 0
            && let Some(pool) = member.pool.upgrade()
        {
            pool.serve_queue();
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.member).finish()
    }
}
