//! Heads and the memory of their fields, lent to a connection while it is busy.

use std::cell::RefCell;
use wire::h1::{RequestHead, ResponseHead};

/// Heads whose memory serves one exchange after another.
#[derive(Default)]
pub(super) struct Heads {
    pub(super) request: RequestHead,
    pub(super) response: ResponseHead,
    /// The configuration by which the last exchange was served.
    pub(super) generation: u64,
    /// Whether the virtual is no longer in it: this request is its last.
    pub(super) gone: bool,
}

/// Heads lent by their worker for as long as a connection is busy.
pub(super) struct Lent(Option<Box<Heads>>);

/// Boxed, so that they are lent without being moved.
type Spare = RefCell<Vec<Box<Heads>>>;

thread_local! {
    static SPARE: Spare = const { RefCell::new(Vec::new()) };
}

/// Spare heads that a worker keeps.
const SPARES: usize = 64;

impl Lent {
    pub(super) fn take() -> Self {
        Lent(
            SPARE
                .with_borrow_mut(Vec::pop)
                .or_else(|| Some(Box::default())),
        )
    }

    pub(super) fn heads(&mut self) -> &mut Heads {
        self.0.get_or_insert_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(mut heads) = self.0.take() else {
            return;
        };
        // Another connection's virtual may be another.
        heads.generation = 0;
        heads.gone = false;
        // The thread-local is gone only while the thread itself ends.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARES {
                spare.push(heads);
            }
        });
    }
}
