//! Notices the end of what a client sends, even if bytes before it have not been read.

use std::cell::RefCell;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::Interest;
use tokio::net::TcpStream;

/// Waits for the end of what a client sends, whatever there is to read before it. The future is made when it is first
/// needed.
#[derive(Default)]
pub(super) struct EndWatch(RefCell<Option<Pin<Box<dyn Future<Output = ()>>>>>);

/// Interest in urgent data and the end, but not in ordinary bytes. The runtime does not ask the system for urgent data,
/// so only the end remains.
const END: Interest = Interest::PRIORITY;

impl EndWatch {
    /// Polls whether `stream` has ended, which must be the same one at each call.
    pub(super) fn poll(&self, stream: &Rc<TcpStream>, cx: &mut Context<'_>) -> Poll<()> {
        let mut watching = self.0.borrow_mut();
        let end = watching.get_or_insert_with(|| {
            let stream = Rc::clone(stream);
            Box::pin(async move { drop(stream.ready(END).await) })
        });
        ready!(end.as_mut().poll(cx));
        *watching = None;
        Poll::Ready(())
    }
}

impl fmt::Debug for EndWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndWatch").finish_non_exhaustive()
    }
}
