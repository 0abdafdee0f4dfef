//! Requests that a rule hands to another virtual: its rules run on them as if they had come to it.
//!
//! Until the exchange is over the client is the other virtual's. One without rules lends its routes alone, which is left
//! to `exchange`.

use super::heads::Heads;
use super::ruled::{self, Collected, Next};
use crate::client::Client;
use crate::rules::Ruled;
use crate::snapshot::Virtual;
use crate::worker::Worker;
use reactor::Buf;
use std::rc::Rc;
use std::sync::Arc;

/// Leads a request through the rules of the virtuals that it is handed to, one after the other. Whatever comes of it, the
/// client is to be taken back by [`leave`].
pub(super) async fn enter(
    worker: &Worker,
    client: &mut Client,
    heads: &mut Heads,
    buf: &mut Buf,
    filled: &mut usize,
    served: u64,
    mut collected: Option<Collected>,
) -> Result<Option<Collected>, Next> {
    for _ in 0..ruled::TURNS {
        let Some(from) = client.rules.clone() else {
            return Ok(collected);
        };
        // That there is no such virtual is found and told by those who ask for its routes.
        let Ok(Some(service)) = ruled::host(worker, &from) else {
            return Ok(collected);
        };
        let inner = {
            let gone = || client.channel.is_gone();
            from.handed_to(worker, &service, &gone).await?
        };
        let Some(inner) = inner else {
            return Ok(collected);
        };
        client.service = service;
        client.rules = Some(Rc::clone(&inner));
        // What was collected is no longer in the buffer.
        let may_collect = collected.is_none();
        let seen = ruled::request(
            worker,
            client,
            &inner,
            heads,
            buf,
            filled,
            served,
            may_collect,
        );
        let more = seen.await?;
        collected = collected.or(more);
    }
    Err(Next::Elsewhere)
}

/// Gives the client back to the virtual that it came to.
pub(super) fn leave(client: &mut Client, service: Arc<Virtual>, rules: Rc<Ruled>) {
    if let Some(inner) = client.rules.take() {
        inner.share_with(&rules);
    }
    client.service = service;
    client.rules = Some(rules);
}
