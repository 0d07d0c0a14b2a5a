//! The threads of a gateway: one for each worker, and one that controls them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, watch};

use super::Gateway;
use super::control::{Phase, control};
use super::sockets::ListeningSockets;
use crate::access_log::Writer;
use crate::proxy::downstream::listener::{ASSIGNED_MAX, WorkerHandle};
use crate::proxy::worker_loop::run;

impl Gateway {
    /// Starts a worker on a thread of its own.
    pub(super) fn spawn_worker(&mut self, index: usize) -> io::Result<WorkerHandle> {
        let (orders, taken) = mpsc::channel(ASSIGNED_MAX);
        let process = Arc::clone(&self.process);
        let metrics = Arc::clone(&process.metrics);
        let writer = Writer::new(self.reloader.output.clone());
        let thread = std::thread::Builder::new()
            .name(format!("worker-{index}"))
            .spawn(move || {
                if let Err(error) = run(metrics.worker(index), process, writer, taken) {
                    tracing::error!(%error, "a worker cannot run");
                }
            })?;
        self.workers.push(thread);
        Ok(WorkerHandle {
            index: self.process.metrics.worker(index),
            orders,
            load: Arc::new(AtomicUsize::new(0)),
        })
    }

    /// Starts the control thread.
    pub(super) fn spawn_control(
        &mut self,
        sockets: ListeningSockets,
        workers: Vec<WorkerHandle>,
        phase: watch::Receiver<Phase>,
    ) -> io::Result<()> {
        let process = Arc::clone(&self.process);
        let admin = Arc::clone(&self.admin);
        let run = move || -> io::Result<()> {
            let runtime = Builder::new_current_thread()
                .enable_all()
                .build_local(LocalOptions::default())?;
            let ended = runtime.block_on(control(process, admin, sockets, workers, phase));
            // Do not wait for name look-ups on other threads.
            runtime.shutdown_background();
            ended
        };
        let thread = std::thread::Builder::new()
            .name("control".into())
            .spawn(move || {
                if let Err(error) = run() {
                    tracing::error!(%error, "the control thread cannot run");
                }
            })?;
        self.control = Some(thread);
        Ok(())
    }
}
