//! The machine that a benchmark ran on, and who else used its processors meanwhile.

use std::collections::HashMap;
use std::fs;
use std::process::Command;

/// The CPU time of a process in ticks, from `/proc/PID/stat`.
#[derive(Clone, Copy)]
pub struct Stat {
    parent: u32,
    pub user: u64,
    pub system: u64,
    /// CPU time of its children that have ended.
    ended: u64,
}

impl Stat {
    pub fn of(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in brackets may contain spaces; the fields after it are 3 and following of proc(5).
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |field: usize| -> Option<u64> { fields.get(field - 3)?.parse().ok() };
        Some(Self {
            parent: number(4)?.try_into().ok()?,
            user: number(14)?,
            system: number(15)?,
            ended: number(16)? + number(17)?,
        })
    }
}

/// Describes the machine in a few lines: processors, kernel, load, and the versions of these programs.
pub fn describe(programs: &[(&str, &str)]) -> String {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split(": ").nth(1));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let versions: Vec<String> = (programs.iter())
        .map(|(program, flag)| version(program, flag))
        .collect();
    format!(
        "{}, {cores} cores, Linux {}, load average (1, 5, 15 minutes) {}\n{}",
        model.unwrap_or("processor unknown"),
        read("/proc/sys/kernel/osrelease").trim(),
        first_words(&read("/proc/loadavg"), 3),
        versions.join(", "),
    )
}

/// Returns what a program prints about itself, up to its version.
fn version(program: &str, flag: &str) -> String {
    let output = Command::new(super::servers::program(program).unwrap_or_default())
        .arg(flag)
        .output();
    let said = output.map(|output| [output.stdout, output.stderr].concat());
    let said = String::from_utf8_lossy(&said.unwrap_or_default()).into_owned();
    let words: Vec<&str> = said.split_whitespace().collect();
    let has_digit = |word: &&str| word.contains(|letter: char| letter.is_ascii_digit());
    let version = words.iter().position(has_digit);
    version.map_or_else(
        || format!("{program} of unknown version"),
        |at| words[..=at].join(" "),
    )
}

fn first_words(text: &str, count: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().take(count).collect();
    words.join(" ")
}

/// Measures what others use of the processors from its start on.
pub struct Watch(Use);

/// Shares of the processors' time that others used.
pub struct Others {
    /// Share of processes that this one did not start, and of the kernel for itself.
    pub foreign: f64,
    /// Share that the hypervisor gave to other machines.
    pub stolen: f64,
}

/// Ticks of all processors so far.
struct Use {
    total: u64,
    busy: u64,
    stolen: u64,
    ours: u64,
}

impl Watch {
    pub fn start() -> Self {
        Self(Use::now())
    }

    pub fn others(&self) -> Others {
        let (before, now) = (&self.0, Use::now());
        let total = (now.total - before.total).max(1) as f64;
        let busy = (now.busy - before.busy) as f64;
        let ours = (now.ours - before.ours) as f64;
        Others {
            foreign: ((busy - ours) / total).max(0.0),
            stolen: (now.stolen - before.stolen) as f64 / total,
        }
    }
}

impl Use {
    fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = stat.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = (line.split_whitespace().skip(1))
            .filter_map(|word| word.parse().ok())
            .collect();
        let [user, nice, system, idle, waiting, irq, softirq, stolen, ..] = ticks[..] else {
            panic!("/proc/stat begins with all processors: {line}");
        };
        let busy = user + nice + system + irq + softirq;
        Self {
            total: busy + idle + waiting + stolen,
            busy,
            stolen,
            ours: ticks_of_descendants(),
        }
    }
}

/// Returns the ticks of this process and of all that it started.
fn ticks_of_descendants() -> u64 {
    let processes = fs::read_dir("/proc").expect("there is /proc");
    let stats: HashMap<u32, Stat> = processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, Stat::of(pid)?)))
        .collect();
    let own = std::process::id();
    let is_ours = |mut pid: u32| {
        while pid != own {
            match stats.get(&pid) {
                Some(stat) => pid = stat.parent,
                None => return false,
            }
        }
        true
    };
    let ours = stats.iter().filter(|(pid, _)| is_ours(**pid));
    ours.map(|(_, stat)| stat.user + stat.system + stat.ended)
        .sum()
}
