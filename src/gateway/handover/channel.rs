//! The channel between two processes during a hand-over: messages, each after its length, over a Unix socket, which
//! carries descriptors too.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// One end of the channel between two processes.
#[derive(Debug)]
pub(super) struct Channel(UnixStream);

/// Why a message could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The other process has ended, or has closed its end.
    #[error("it has ended")]
    Ended,
    /// The other process has sent nothing, or read nothing, for this long.
    #[error("it said nothing for {} s", .0.as_secs())]
    Silent(Duration),
    /// The other process sent something unreadable or unexpected.
    #[error("what it said makes no sense: is it the same program?")]
    Nonsense,
    /// Error of the operating system.
    #[error(transparent)]
    System(io::Error),
}

impl Channel {
    /// Makes a channel; returns this process's end, and a descriptor for the other process.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        Ok((Self(ours), theirs.into()))
    }

    /// Makes an end of a channel from a descriptor that was passed to this process.
    pub(super) fn from_descriptor(end: OwnedFd) -> Self {
        Self(end.into())
    }

    /// Whether the other process has ended.
    pub(super) fn is_closed(&self) -> bool {
        let peeked = rustix::net::recv(&self.0, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        matches!(peeked, Ok((_, 0)))
    }

    /// Returns a second handle to the same end.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Returns the descriptor, to be passed on.
    pub(super) fn as_descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Sends a message with descriptors; fails if the socket stays full for `within`.
    pub(super) fn send(
        &self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
        within: Duration,
    ) -> Result<(), ChannelError> {
        let body = postcard::to_stdvec(message).map_err(|_| ChannelError::Nonsense)?;
        let length = u32::try_from(body.len()).map_err(|_| ChannelError::Nonsense)?;
        let failed = |error| failed(error, within);
        self.0.set_write_timeout(Some(within)).map_err(failed)?;
        let mut room = [MaybeUninit::uninit(); DESCRIPTORS_ROOM];
        let length = length.to_be_bytes();
        // The call is interrupted if this process is stopped and continued by signals.
        let sent = retry_on_intr(|| {
            let mut attached = SendAncillaryBuffer::new(&mut room);
            if !descriptors.is_empty() {
                attached.push(SendAncillaryMessage::ScmRights(descriptors));
            }
            let iov = [IoSlice::new(&length)];
            rustix::net::sendmsg(&self.0, &iov, &mut attached, SendFlags::NOSIGNAL)
        });
        let sent = sent.map_err(|error| failed(error.into()))?;
        // Four bytes are sent at once, unless the socket is nearly full.
        (&self.0).write_all(&length[sent..]).map_err(failed)?;
        (&self.0).write_all(&body).map_err(failed)
    }

    /// Waits for a message and the descriptors that come with it; waits forever if `within` is `None`.
    pub(super) fn receive<M: DeserializeOwned>(
        &self,
        within: Option<Duration>,
    ) -> Result<(M, Vec<OwnedFd>), ChannelError> {
        let failed = |error| failed(error, within.unwrap_or_default());
        self.0.set_read_timeout(within).map_err(failed)?;
        let mut length = [0; 4];
        let (received, descriptors) = self.receive_attached(&mut length).map_err(failed)?;
        if received == 0 {
            return Err(ChannelError::Ended);
        }
        (&self.0)
            .read_exact(&mut length[received..])
            .map_err(failed)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(ChannelError::Nonsense);
        }
        let mut body = vec![0; length];
        (&self.0).read_exact(&mut body).map_err(failed)?;
        match postcard::take_from_bytes(&body) {
            Ok((message, [])) => Ok((message, descriptors)),
            _ => Err(ChannelError::Nonsense),
        }
    }

    fn receive_attached(&self, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        let mut room = [MaybeUninit::uninit(); DESCRIPTORS_ROOM];
        let mut attached = RecvAncillaryBuffer::new(&mut room);
        let received = retry_on_intr(|| {
            let mut iov = [IoSliceMut::new(bytes)];
            rustix::net::recvmsg(&self.0, &mut iov, &mut attached, RecvFlags::CMSG_CLOEXEC)
        })?;
        let mut descriptors = Vec::new();
        for message in attached.drain() {
            if let RecvAncillaryMessage::ScmRights(found) = message {
                descriptors.extend(found);
            }
        }
        Ok((received.bytes, descriptors))
    }
}

fn failed(error: io::Error, within: Duration) -> ChannelError {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => ChannelError::Silent(within),
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            ChannelError::Ended
        }
        _ => ChannelError::System(error),
    }
}

/// Most descriptors in one message; the kernel's limit is 253.
pub(super) const DESCRIPTORS_MAX: usize = 200;

const DESCRIPTORS_ROOM: usize = rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX));

/// Most bytes of a message.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(50);

    #[test]
    fn descriptors_arrive_with_their_message_and_ends_and_silence_are_told_apart() {
        let (one, other) = Channel::pair().expect("a socket");
        let other = Channel::from_descriptor(other);
        let (passed, mut kept) = UnixStream::pair().expect("a socket");
        one.send(&(1_u8, "text"), &[passed.as_fd()], SOON)
            .expect("room");
        one.send(&2_u8, &[], SOON).expect("room");
        let (message, descriptors): ((u8, String), _) = other.receive(None).expect("a message");
        assert_eq!(message, (1, "text".to_owned()));
        let [descriptor] = <[OwnedFd; 1]>::try_from(descriptors).expect("one");
        kept.write_all(b"x").expect("room");
        let mut byte = [0];
        UnixStream::from(descriptor)
            .read_exact(&mut byte)
            .expect("a byte");
        let (second, none): (u8, _) = other.receive(Some(SOON)).expect("a message");
        assert_eq!((second, none.len()), (2, 0));
        let silent = other.receive::<u8>(Some(SOON));
        assert!(matches!(silent, Err(ChannelError::Silent(SOON))));
        drop(one);
        assert!(matches!(
            other.receive::<u8>(Some(SOON)),
            Err(ChannelError::Ended)
        ));
    }

    #[test]
    fn what_is_no_message_is_told_of() {
        for bytes in [&[0xff; 8][..], &[0, 0, 0, 1, 0xff]] {
            let (one, other) = Channel::pair().expect("a socket");
            let other = Channel::from_descriptor(other);
            (&one.0).write_all(bytes).expect("room");
            let received = other.receive::<u8>(Some(SOON));
            match bytes.len() {
                8 => assert!(matches!(received, Err(ChannelError::Nonsense))),
                _ => assert!(received.is_ok(), "any byte is a number"),
            }
        }
    }
}
