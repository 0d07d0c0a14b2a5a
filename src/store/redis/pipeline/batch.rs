//! One exchange with the server: a batch goes out, and its answers come back in order.
//!
//! Plans that the server can decide in one step share a call; other jobs have a call each, and the
//! calls are pipelined. Some errors mean that nothing was executed, so the jobs are sent once more:
//! after NOSCRIPT with the script's text, after OOM to the script that adds no keys, after CROSSSLOT
//! in a call each.

use std::sync::atomic::Ordering::Relaxed;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult, Value};

use super::queue::{Batch, Job, JobAnswer, Work};
use super::shared_state::{Grouping, PipelineCore};
use crate::store::redis::call_error::CallError;
use crate::store::redis::observer::ServerEvent;
use crate::store::redis::reply::replies;
use crate::store::redis::wire::{Call, Packed, Replies, Script};

/// What an exchange says about the connection.
#[derive(Debug)]
pub(super) enum Aftermath {
    /// The server answered.
    Served,
    /// It answered with errors only.
    Erred,
    /// The server does not let the gateway's user do some of what was asked.
    Denied(CallError),
    /// The connection is useless.
    Condemned(CallError),
}

/// Jobs that one call of a script carries out.
struct JobCall {
    jobs: Vec<Job>,
    script: Script,
    by: By,
}

/// How a script is named to the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Sha,
    Source,
}

/// Sends a batch, hands out its answers, and tells the observer how it went.
pub(super) async fn exchange(
    mut connection: MultiplexedConnection,
    batch: Batch,
    core: &PipelineCore,
) -> Aftermath {
    let mut digits = itoa::Buffer::new();
    let now = core.context.shared.clock.manual_now();
    let time = now.map_or("", |now| digits.format(now.0));
    let mut calls = calls_of(batch.jobs, core);
    let (mut delivery, mut rounds) = (Delivery::default(), 0);
    while !calls.is_empty() {
        rounds += 1;
        let replies = match send(&mut connection, &calls, time).await {
            Ok(replies) if replies.len() == calls.len() => replies,
            failed => {
                let error = if failed.is_ok() {
                    CallError::BadReply
                } else {
                    CallError::Disconnected
                };
                let jobs = calls.into_iter().flat_map(|call| call.jobs);
                jobs.for_each(|job| delivery.answer(job, Err(error.clone())));
                break;
            }
        };
        for (call, reply) in std::mem::take(&mut calls).into_iter().zip(replies) {
            match call.after(&reply, core) {
                Ok(again) if rounds < ROUNDS_MAX => calls.extend(again),
                Ok(given_up) => given_up
                    .into_iter()
                    .for_each(|call| delivery.hand_out(call, reply.clone())),
                Err(call) => delivery.hand_out(call, reply),
            }
        }
        send_sources_once(&mut calls);
    }
    delivery.notify(core, batch.number);
    delivery.aftermath()
}

/// Lets only the first call of each script send its text: by the calls after it, the server knows the script.
fn send_sources_once(calls: &mut [JobCall]) {
    let mut sent = Vec::new();
    for call in calls.iter_mut().filter(|call| call.by == By::Source) {
        if sent.contains(&call.script) {
            call.by = By::Sha;
        } else {
            sent.push(call.script);
        }
    }
}

/// Groups jobs into calls: all of them in one, if plans may share a call, or one call for each.
fn calls_of(jobs: Vec<Job>, core: &PipelineCore) -> Vec<JobCall> {
    let context = &core.context;
    let is_shared =
        context.grouping == Grouping::OneCall && !context.shared.keeps_slots_apart.load(Relaxed);
    if is_shared {
        vec![JobCall::new(jobs)]
    } else {
        split(jobs)
    }
}

/// Gives each job a call of its own.
fn split(jobs: Vec<Job>) -> Vec<JobCall> {
    let alone = |job| JobCall::new(vec![job]);
    jobs.into_iter().map(alone).collect()
}

impl JobCall {
    /// Makes the call that does `jobs`: any number of plans, or one call of a script.
    fn new(jobs: Vec<Job>) -> Self {
        let script = match &jobs[..] {
            [job] => match &job.work {
                Work::Call { call, .. } => call.script,
                Work::Plan(packed) => packed.script,
            },
            _ => Script::Decide,
        };
        Self {
            jobs,
            script,
            by: By::Sha,
        }
    }

    /// Returns the calls to send in place of this one, if the reply says that nothing was executed and
    /// another call may work; otherwise returns this call as the error. Jobs whose callers have given up
    /// are not sent again, unless they are due in any case.
    fn after(mut self, reply: &Value, core: &PipelineCore) -> Result<Vec<Self>, Self> {
        let Value::ServerError(error) = reply else {
            return Err(self);
        };
        match (error.code(), self.by, self.script.when_full()) {
            ("NOSCRIPT", By::Sha, _) => self.by = By::Source,
            ("OOM", _, Some(script)) => {
                core.observer.note(ServerEvent::Full);
                (self.script, self.by) = (script, By::Sha);
            }
            ("CROSSSLOT", ..) => {
                if !core.context.shared.keeps_slots_apart.swap(true, Relaxed) {
                    let server = &*core.context.server;
                    tracing::warn!(
                        server,
                        "Redis answered CROSSSLOT: one call per partition from now on"
                    );
                }
                if self.jobs.len() == 1 {
                    return Err(self);
                }
                self.jobs.retain(|job| !job.is_given_up());
                return Ok(split(self.jobs));
            }
            _ => return Err(self),
        }
        self.jobs
            .retain(|job| !job.is_given_up() || job.is_due_anyway());
        Ok(if self.jobs.is_empty() {
            vec![]
        } else {
            vec![self]
        })
    }

    /// Says whether `ASKING` goes before this call.
    fn is_asking(&self) -> bool {
        matches!(
            self.jobs[..],
            [Job {
                work: Work::Call {
                    is_asking: true,
                    ..
                },
                ..
            }]
        )
    }

    fn command(&self, time: &str) -> Cmd {
        match &self.jobs[..] {
            [
                Job {
                    work: Work::Call { call, .. },
                    ..
                },
            ] => self.called(call),
            _ => self.decide(time),
        }
    }

    /// Writes the call that decides the plans.
    fn decide(&self, time: &str) -> Cmd {
        let plans = || {
            self.jobs.iter().filter_map(|job| match &job.work {
                Work::Plan(packed) => Some(packed),
                Work::Call { .. } => None,
            })
        };
        let keys: usize = plans().map(|plan| plan.keys.len()).sum();
        let bytes: usize = plans().map(bytes_of).sum();
        let mut command = self.begin(keys, 1 + self.jobs.len(), bytes);
        for key in plans().flat_map(|plan| &plan.keys) {
            command.arg(&**key);
        }
        if !time.is_empty() {
            command.arg(time);
        }
        for plan in plans() {
            command.arg(&*plan.argument);
        }
        command
    }

    /// Writes the call of a job that is a call of its own.
    fn called(&self, call: &Call) -> Cmd {
        let Call {
            keys, arguments, ..
        } = call;
        let parts = || (keys.iter().map(|key| &**key)).chain(arguments.iter().map(Vec::as_slice));
        let bytes = parts().map(<[u8]>::len).sum();
        let mut command = self.begin(keys.len(), arguments.len(), bytes);
        for part in parts() {
            command.arg(part);
        }
        command
    }

    fn begin(&self, keys: usize, args: usize, bytes: usize) -> Cmd {
        let (name, body) = match self.by {
            By::Sha => ("EVALSHA", self.script.sha()),
            By::Source => ("EVAL", self.script.source()),
        };
        let mut command = Cmd::with_capacity(3 + keys + args, NAMES_BYTES + body.len() + bytes);
        command.arg(name).arg(body).arg(keys);
        command
    }
}

fn bytes_of(plan: &Packed) -> usize {
    plan.keys.iter().map(|key| key.len()).sum::<usize>() + plan.argument.len()
}

/// Sends calls together; returns one reply for each call, without those to `ASKING`.
async fn send(
    connection: &mut MultiplexedConnection,
    calls: &[JobCall],
    time: &str,
) -> RedisResult<Vec<Value>> {
    if let [call] = calls
        && !call.is_asking()
    {
        let reply = connection.send_packed_command(&call.command(time)).await?;
        return Ok(vec![reply]);
    }
    let mut pipeline = redis::Pipeline::with_capacity(calls.len());
    let mut asking = 0;
    for call in calls {
        if call.is_asking() {
            pipeline.cmd("ASKING");
            asking += 1;
        }
        pipeline.add_command(call.command(time));
    }
    // `ASKING` goes only before a call that is alone in its batch, so its reply is the first, which is skipped.
    connection
        .send_packed_commands(&pipeline, asking, calls.len())
        .await
}

/// Hands out the answers of a batch, and notes what they say about the server.
#[derive(Default)]
struct Delivery {
    is_answered: bool,
    is_served: bool,
    /// An error that is the server's fault.
    failure: Option<CallError>,
    condemned: Option<CallError>,
}

impl Delivery {
    /// Hands out the reply to a call: each plan gets its part, a job with a call of its own the whole
    /// reply. An error goes to every job.
    fn hand_out(&mut self, mut call: JobCall, reply: Value) {
        let error = match reply {
            Value::ServerError(error) => CallError::from_server(&error),
            reply if matches!(call.jobs[0].work, Work::Call { .. }) => {
                let job = call.jobs.swap_remove(0);
                return self.answer(job, Ok(JobAnswer::Call(reply)));
            }
            reply => match replies(reply) {
                Ok(replies) => return self.hand_out_each(call.jobs, replies),
                Err(error) => error,
            },
        };
        for job in call.jobs {
            self.answer(job, Err(error.clone()));
        }
    }

    fn hand_out_each(&mut self, jobs: Vec<Job>, mut replies: Replies) {
        for job in jobs {
            let checks = match &job.work {
                Work::Plan(packed) => packed.checks(),
                Work::Call { .. } => 0,
            };
            let answer = replies.next(checks).map(JobAnswer::Plan);
            self.answer(job, answer.map_err(CallError::from));
        }
        if !replies.is_at_end() {
            self.condemned = Some(CallError::BadReply);
        }
    }

    fn answer(&mut self, job: Job, answer: Result<JobAnswer, CallError>) {
        match &answer {
            Ok(_) => (self.is_served, self.is_answered) = (true, true),
            Err(error) if error.condemns_connection() => self.condemned = Some(error.clone()),
            Err(error) if error.is_of_the_server() => self.failure = Some(error.clone()),
            // The supervisor tells the observer that the connection ended.
            Err(CallError::Disconnected) => {}
            Err(_) => self.is_answered = true,
        }
        job.answer(answer);
    }

    /// Tells the observer how the batch went, unless it was already told that the reply is late, or will
    /// be told that the connection ended.
    fn notify(&self, core: &PipelineCore, batch: u64) {
        if core.queue.ended(batch) || self.condemned.is_some() {
            return;
        }
        match &self.failure {
            _ if self.is_answered => core.observer.note(ServerEvent::Answered),
            Some(error) => core.observer.note(ServerEvent::Failed(error)),
            None => {}
        }
    }

    fn aftermath(self) -> Aftermath {
        match (self.condemned, self.failure) {
            (Some(error), _) => Aftermath::Condemned(error),
            (None, Some(error)) if error.is_denial() => Aftermath::Denied(error),
            (None, _) if self.is_served => Aftermath::Served,
            (None, _) => Aftermath::Erred,
        }
    }
}

/// Most times that a call is sent: by the script's digest and by its text, both again for the script
/// that adds no keys, and both once more for a script that was flushed meanwhile.
const ROUNDS_MAX: u32 = 6;
/// Bytes reserved for a command's name and its number of keys.
const NAMES_BYTES: usize = 16;
