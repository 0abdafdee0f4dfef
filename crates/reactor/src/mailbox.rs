//! A queue into a reactor's thread: any thread sends, one task of the reactor receives.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

struct Shared<T> {
    queue: VecDeque<T>,
    waiting: Option<Waker>,
    receiver_gone: bool,
}

/// The sending end, for any thread.
pub struct Mailbox<T>(Arc<Mutex<Shared<T>>>);

/// The receiving end, for one task.
pub struct MailboxReceiver<T>(Arc<Mutex<Shared<T>>>);

/// A new queue, without a bound: what is sent through it is control, not traffic.
pub fn mailbox<T>() -> (Mailbox<T>, MailboxReceiver<T>) {
    let shared = Arc::new(Mutex::new(Shared {
        queue: VecDeque::new(),
        waiting: None,
        receiver_gone: false,
    }));
    (Mailbox(Arc::clone(&shared)), MailboxReceiver(shared))
}

impl<T> Mailbox<T> {
    /// Sends; gives the message back when nobody will ever receive it.
    pub fn send(&self, message: T) -> Result<(), T> {
        let waiting = {
            let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if shared.receiver_gone {
                return Err(message);
            }
            shared.queue.push_back(message);
            shared.waiting.take()
        };
        if let Some(waker) = waiting {
            waker.wake();
        }
        Ok(())
    }
}

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Mailbox(Arc::clone(&self.0))
    }
}

impl<T> MailboxReceiver<T> {
    /// The next message, in the order sent.
    pub async fn receive(&mut self) -> T {
        poll_fn(|cx| {
            let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match shared.queue.pop_front() {
                Some(message) => Poll::Ready(message),
                None => {
                    shared.waiting = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl<T> Drop for MailboxReceiver<T> {
    fn drop(&mut self) {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.receiver_gone = true;
        shared.queue.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_on;

    #[test]
    fn messages_of_another_thread_arrive_in_order() {
        let (sender, mut receiver) = mailbox();
        let thread = std::thread::spawn(move || {
            for n in 0..1000 {
                sender.send(n).unwrap();
            }
        });
        let got = block_on(async move {
            let mut got = Vec::new();
            while got.len() < 1000 {
                got.push(receiver.receive().await);
            }
            got
        });
        thread.join().unwrap();
        assert_eq!(got, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn a_message_to_nobody_comes_back() {
        let (sender, receiver) = mailbox();
        drop(receiver);
        assert_eq!(sender.send("lost"), Err("lost"));
    }
}
