//! Texts that rules have replaced in bodies on their way to the client: `STREAM::`.

use super::collect::Form;
use super::ruled::{self, Next};
use crate::client::Client;
use crate::rules::Ruled;
use crate::worker::Worker;
use ::rules::event::Event;
use ::rules::value::Value;

/// A search through a body.
pub(super) struct Search {
    /// What is found, and what it becomes.
    pairs: Vec<(Vec<u8>, Option<Value>)>,
    /// The end of what came, in which a text may have begun.
    tail: Vec<u8>,
    longest: usize,
}

impl Search {
    /// The search that the rules want, or none where it is not `on`.
    pub(super) fn new(rules: &Ruled, on: bool) -> Self {
        let mut pairs = Vec::new();
        if on {
            let flow = rules.flow();
            let wanted = flow.stream.replace.iter();
            pairs.extend(wanted.map(|(find, to)| (find.bytes().to_vec(), to.clone())));
            pairs.retain(|(find, _)| !find.is_empty());
        }
        Search {
            longest: pairs.iter().map(|(find, _)| find.len()).max().unwrap_or(0),
            pairs,
            tail: Vec::new(),
        }
    }

    /// Searches a part of the body, and puts what goes out of it behind `out`.
    pub(super) async fn feed(
        &mut self,
        worker: &Worker,
        client: &Client,
        rules: &Ruled,
        part: &[u8],
        out: &mut Vec<u8>,
        form: Form,
    ) -> Result<(), Next> {
        if self.pairs.is_empty() {
            form.push(part, out);
            return Ok(());
        }
        self.tail.extend_from_slice(part);
        let text = std::mem::take(&mut self.tail);
        let mut made = Vec::with_capacity(text.len());
        let mut at = 0;
        while let Some((found, pair)) = self.find(&text, at) {
            made.extend_from_slice(&text[at..found]);
            let (find, to) = &self.pairs[pair];
            let end = found + find.len();
            let matched = &text[found..end];
            let becomes = matched_becomes(worker, client, rules, matched, to.clone()).await?;
            match becomes {
                Some(value) => made.extend_from_slice(&value.bytes()),
                None => made.extend_from_slice(matched),
            }
            at = end;
        }
        // A text may begin at the end of this part and go on in the next.
        let keep = self.pending(&text[at..]);
        let cut = text.len() - keep;
        made.extend_from_slice(&text[at..cut]);
        self.tail = text[cut..].to_vec();
        form.push(&made, out);
        Ok(())
    }

    /// Ends the body.
    pub(super) fn end(&mut self, out: &mut Vec<u8>, form: Form) {
        form.push(&std::mem::take(&mut self.tail), out);
    }

    /// The first text from `at` on: where, and which; of several at one place the first that is asked for.
    fn find(&self, text: &[u8], at: usize) -> Option<(usize, usize)> {
        let found = self
            .pairs
            .iter()
            .enumerate()
            .filter_map(|(pair, (find, _))| {
                let place = memchr::memmem::find(&text[at..], find)?;
                Some((at + place, pair))
            });
        found.min()
    }

    /// How many of the last bytes may be the beginning of a text.
    fn pending(&self, text: &[u8]) -> usize {
        let most = self.longest.saturating_sub(1).min(text.len());
        let begins = |n: usize| {
            let end = &text[text.len() - n..];
            self.pairs
                .iter()
                .any(|(find, _)| find.len() > n && find.starts_with(end))
        };
        (1..=most).rev().find(|&n| begins(n)).unwrap_or(0)
    }
}

/// Tells the rules of a text that was found: what it becomes.
async fn matched_becomes(
    worker: &Worker,
    client: &Client,
    rules: &Ruled,
    matched: &[u8],
    to: Option<Value>,
) -> Result<Option<Value>, Next> {
    if !rules.wants(Event::StreamMatched) {
        return Ok(to);
    }
    {
        let mut flow = rules.flow();
        flow.stream.matched = Value::new(matched);
        flow.stream.replacement = to;
    }
    ruled::raise(worker, client, rules, Event::StreamMatched).await?;
    Ok(rules.flow().stream.replacement.take())
}
