//! Two futures in one task: both directions of a relay, or a wait and what ends it early.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Which of two raced futures was first.
#[derive(Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first.
    Left(A),
    /// The second.
    Right(B),
}

/// Runs both to their end.
pub async fn join<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut left, mut right) = (None, None);
    poll_fn(move |cx| {
        if left.is_none()
            && let Poll::Ready(output) = a.as_mut().poll(cx)
        {
            left = Some(output);
        }
        if right.is_none()
            && let Poll::Ready(output) = b.as_mut().poll(cx)
        {
            right = Some(output);
        }
        match (left.take(), right.take()) {
            (Some(l), Some(r)) => Poll::Ready((l, r)),
            (l, r) => {
                (left, right) = (l, r);
                Poll::Pending
            }
        }
    })
    .await
}

/// Runs both until one ends; the other is dropped where it stands. The first is asked first.
pub async fn race<A: Future, B: Future>(a: A, b: B) -> Either<A::Output, B::Output> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    poll_fn(move |cx| {
        if let Poll::Ready(output) = a.as_mut().poll(cx) {
            return Poll::Ready(Either::Left(output));
        }
        b.as_mut().poll(cx).map(Either::Right)
    })
    .await
}
