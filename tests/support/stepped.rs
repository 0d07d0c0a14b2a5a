//! A gateway whose time passes in steps: after each step, everything that was due has been done.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};

use tollgate::clock::Micros;

use super::gateway::{Config, Running, start};
use super::{Client, Origin, get};

/// A gateway with one worker that lets a test see when it has caught up with its clients and its clock.
///
/// A test that nothing happens must know when something would have happened. The worker does one thing after the other,
/// so an answer to a later request shows that everything sent before it has been read. The worker also checks all its
/// deadlines in one sweep, so if it has noticed one that is over, it has noticed all that are.
#[derive(Debug)]
pub struct Stepped {
    running: Running,
    /// Address of the listener for the requests that show this, beside the listener under test.
    beside: SocketAddr,
    /// An origin that never answers, so that requests to it become overdue.
    mute: Origin,
}

impl Stepped {
    /// Starts the gateway, with additional routes for these requests.
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

    /// Waits until the gateway has read everything that was sent to it before.
    #[track_caller]
    pub fn settle(&self) {
        assert_eq!(get(self.beside, AT_ONCE, "").status, 200);
    }

    /// Moves the clock forward, by at least a millisecond, and waits until everything that is due has been done.
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
