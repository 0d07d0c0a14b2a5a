//! A gateway whose time passes in steps: after each, all that was due has been done.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};

use tollgate::clock::Micros;

use super::gateway::{Config, Running, start};
use super::{Client, Origin, get};

/// A gateway of one worker that tells when it has caught up with its clients and its clock.
///
/// A test that nothing happens has to know when something would have. The worker does one thing
/// after the other, so an answer to a later request shows that what was sent before has been read; and it looks
/// at all its deadlines at once, so if one that is over has been noticed, any other has been too.
#[derive(Debug)]
pub struct Stepped {
    running: Running,
    /// A listener for the requests that show this, beside the one under test.
    beside: SocketAddr,
    /// Never answers, so that requests to it are overdue.
    mute: Origin,
}

impl Stepped {
    /// Starts the gateway, with routes of its own beside those of the file.
    #[track_caller]
    pub fn start(config: &Config) -> Self {
        let mute = Origin::mute();
        let tables = format!(
            "[listeners.beside]\naddress = '127.0.0.1:0'\n\
             [upstreams.at_once]\nendpoints = ['builtin:status/200']\n\
             [upstreams.mute]\nendpoints = ['{}']\nresponse_timeout = '1ms'\n\
             [[routes]]\npath = '{AT_ONCE}'\nupstream = 'at_once'\n\
             [[routes]]\npath = '{OVERDUE}'\nupstream = 'mute'\n",
            mute.url()
        );
        let running = start(&config.clone().one_worker().with(&tables));
        let beside = running.gateway.address("beside");
        Self {
            running,
            beside: beside.expect("it is in the file"),
            mute,
        }
    }

    /// Waits until the gateway has read what it was sent before.
    #[track_caller]
    pub fn settle(&self) {
        assert_eq!(get(self.beside, AT_ONCE, "").status, 200);
    }

    /// Moves the clock on, by a millisecond at least, and waits until everything that is due has been done.
    #[track_caller]
    pub fn advance(&self, by: Micros) {
        let sent_before = self.mute.requests().len();
        let mut overdue = Client::asking(self.beside, OVERDUE, "");
        self.mute.wait_for_requests(sent_before + 1);
        self.settle();
        self.running.clock.advance(by);
        assert_eq!(overdue.answer().status, 504);
        self.settle();
    }
}

impl Deref for Stepped {
    type Target = Running;
    fn deref(&self) -> &Running {
        &self.running
    }
}

impl DerefMut for Stepped {
    fn deref_mut(&mut self) -> &mut Running {
        &mut self.running
    }
}

const AT_ONCE: &str = "/stepped/at-once";
const OVERDUE: &str = "/stepped/overdue";
