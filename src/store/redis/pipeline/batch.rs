//! One exchange with the server: a batch goes out, and its answers come back in order.
//!
//! A script is called by `EVALSHA`. If the server answers NOSCRIPT, it has executed nothing, so the
//! same is sent once more by `EVAL` and nothing counts twice.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult, ServerErrorKind, Value};

use super::queue::{Batch, Job, Work};
use super::{Grouping, PipelineContext};
use crate::store::redis::call_error::CallError;
use crate::store::redis::wire::{Call, Packed, Script};

/// What an exchange says about the connection.
#[derive(Debug)]
pub(super) enum Aftermath {
    /// The server answered.
    Served,
    /// It answered with errors only.
    Erred,
    /// The connection is of no more use.
    Condemned(CallError),
}

/// How a script is named to the server.
#[derive(Clone, Copy)]
enum By {
    Sha,
    Source,
}

/// Sends a batch and hands out its answers; a manual clock replaces the server's.
pub(super) async fn exchange(
    connection: MultiplexedConnection,
    batch: Batch,
    context: &PipelineContext,
) -> Aftermath {
    let mut digits = itoa::Buffer::new();
    let now = context.clock.manual_now();
    let time = now.map_or("", |now| digits.format(now.0));
    match (batch, context.grouping) {
        (Batch::Plans(jobs), Grouping::OneCall) => one_call(connection, jobs, time).await,
        (Batch::Plans(jobs), Grouping::CallEach) => call_each(connection, jobs, time).await,
        (Batch::Call(job), _) => call_each(connection, vec![job], time).await,
    }
}

/// Sends all plans in one call, whose reply has one answer per plan.
async fn one_call(
    mut connection: MultiplexedConnection,
    mut jobs: Vec<Job>,
    time: &str,
) -> Aftermath {
    let command = decide(By::Sha, &jobs, time);
    let mut reply = connection.send_packed_command(&command).await;
    if reply.as_ref().is_ok_and(is_no_script) {
        jobs.retain(|job| !job.is_given_up());
        if jobs.is_empty() {
            return Aftermath::Erred;
        }
        let command = decide(By::Source, &jobs, time);
        reply = connection.send_packed_command(&command).await;
    }
    let mut delivery = Delivery::default();
    match reply {
        Ok(Value::Array(values)) if values.len() == jobs.len() => {
            for (job, value) in jobs.into_iter().zip(values) {
                delivery.answer(job, value);
            }
        }
        Ok(Value::ServerError(error)) => {
            for job in jobs {
                delivery.answer(job, Value::ServerError(error.clone()));
            }
        }
        Ok(_) => delivery.fail(jobs, &CallError::BadReply),
        Err(_) => delivery.fail(jobs, &CallError::Disconnected),
    }
    delivery.aftermath()
}

/// Sends each job in a call of its own, pipelined.
async fn call_each(
    mut connection: MultiplexedConnection,
    mut jobs: Vec<Job>,
    time: &str,
) -> Aftermath {
    let mut delivery = Delivery::default();
    for by in [By::Sha, By::Source] {
        let replies = pipelined(&mut connection, by, &jobs, time).await;
        let replies = match replies {
            Ok(replies) if replies.len() == jobs.len() => replies,
            Ok(_) => {
                delivery.fail(jobs, &CallError::BadReply);
                break;
            }
            Err(_) => {
                delivery.fail(jobs, &CallError::Disconnected);
                break;
            }
        };
        let mut unknown = Vec::new();
        for (job, reply) in jobs.into_iter().zip(replies) {
            match by {
                By::Sha if is_no_script(&reply) && !job.is_given_up() => unknown.push(job),
                _ => match (&job.work, reply) {
                    (Work::Plan(_), Value::Array(mut answers)) if answers.len() == 1 => {
                        delivery.answer(job, answers.pop().unwrap_or_default());
                    }
                    (Work::Plan(_), Value::ServerError(error)) => {
                        delivery.answer(job, Value::ServerError(error));
                    }
                    (Work::Plan(_), _) => delivery.fail(vec![job], &CallError::BadReply),
                    (Work::Call { .. }, value) => delivery.answer(job, value),
                },
            }
        }
        jobs = unknown;
        if jobs.is_empty() {
            break;
        }
    }
    delivery.aftermath()
}

/// Sends one call per job; returns one reply per job, those of `ASKING` left out.
async fn pipelined(
    connection: &mut MultiplexedConnection,
    by: By,
    jobs: &[Job],
    time: &str,
) -> RedisResult<Vec<Value>> {
    let mut pipeline = redis::Pipeline::with_capacity(jobs.len());
    let mut asking = 0;
    for job in jobs {
        match &job.work {
            Work::Plan(_) => {
                pipeline.add_command(decide(by, std::slice::from_ref(job), time));
            }
            Work::Call { call, is_asking } => {
                if *is_asking {
                    pipeline.cmd("ASKING");
                    asking += 1;
                }
                pipeline.add_command(called(by, call));
            }
        }
    }
    // Only a single call is preceded by `ASKING`, so the replies to skip are the first.
    connection
        .send_packed_commands(&pipeline, asking, jobs.len())
        .await
}

/// Writes the call that decides the plans among `jobs`.
fn decide(by: By, jobs: &[Job], time: &str) -> Cmd {
    let plans = || {
        jobs.iter().filter_map(|job| match &job.work {
            Work::Plan(packed) => Some(packed),
            Work::Call { .. } => None,
        })
    };
    let keys: usize = plans().map(|plan| plan.keys.len()).sum();
    let bytes: usize = plans().map(bytes_of).sum();
    let mut command = begin(by, Script::Decide, keys, 1 + jobs.len(), bytes);
    for key in plans().flat_map(|plan| &plan.keys) {
        command.arg(&**key);
    }
    command.arg(time);
    for plan in plans() {
        command.arg(&*plan.argument);
    }
    command
}

/// Writes a call as it is.
fn called(by: By, call: &Call) -> Cmd {
    let Call {
        script,
        keys,
        arguments,
    } = call;
    let parts = || (keys.iter().map(|key| &**key)).chain(arguments.iter().map(Vec::as_slice));
    let bytes = parts().map(<[u8]>::len).sum();
    let mut command = begin(by, *script, keys.len(), arguments.len(), bytes);
    for part in parts() {
        command.arg(part);
    }
    command
}

fn begin(by: By, script: Script, keys: usize, args: usize, bytes: usize) -> Cmd {
    let (name, body) = match by {
        By::Sha => ("EVALSHA", script.sha()),
        By::Source => ("EVAL", script.source()),
    };
    let mut command = Cmd::with_capacity(3 + keys + args, NAMES_BYTES + body.len() + bytes);
    command.arg(name).arg(body).arg(keys);
    command
}

fn bytes_of(plan: &Packed) -> usize {
    plan.keys.iter().map(|key| key.len()).sum::<usize>() + plan.argument.len()
}

fn is_no_script(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript))
}

/// Hands out the answers of a batch, and notes what they say about the connection.
#[derive(Default)]
struct Delivery {
    is_served: bool,
    condemned: Option<CallError>,
}

impl Delivery {
    fn answer(&mut self, job: Job, value: Value) {
        let answer = match value {
            Value::ServerError(error) => Err(CallError::from_server(&error)),
            value => Ok(value),
        };
        match &answer {
            Ok(_) => self.is_served = true,
            Err(error) => self.note(error),
        }
        job.answer(answer);
    }

    fn fail(&mut self, jobs: Vec<Job>, error: &CallError) {
        self.note(error);
        for job in jobs {
            job.answer(Err(error.clone()));
        }
    }

    fn note(&mut self, error: &CallError) {
        if error.condemns_connection() {
            self.condemned = Some(error.clone());
        }
    }

    fn aftermath(self) -> Aftermath {
        match (self.condemned, self.is_served) {
            (Some(error), _) => Aftermath::Condemned(error),
            (None, true) => Aftermath::Served,
            (None, false) => Aftermath::Erred,
        }
    }
}

/// Bytes reserved for a command's name and its number of keys.
const NAMES_BYTES: usize = 16;
