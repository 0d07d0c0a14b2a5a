//! Processes of the real binary that replace each other without closing their listeners.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use super::process::{Process, command, with_descriptors};
use super::{Config, TOKEN};

/// The first process and its successors; all are killed when dropped.
pub struct Generations {
    pub first: Process,
    /// Path by which the binary is started: a link to it, or the script that replaced the link.
    program: PathBuf,
    _folder: TempDir,
}

impl Generations {
    /// Starts the first process.
    #[track_caller]
    pub fn start(config: &Config) -> Self {
        Self::start_as(config, |linked| linked)
    }

    /// Starts the first process with that many descriptors, as soft and hard limit.
    #[track_caller]
    pub fn start_with_descriptors(config: &Config, descriptors: usize) -> Self {
        Self::start_as(config, |linked| with_descriptors(&linked, descriptors))
    }

    #[track_caller]
    fn start_as(config: &Config, change: impl Fn(Command) -> Command) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the binary");
        let program = folder.path().join("tollgate");
        let config = config.clone().admin_token(TOKEN);
        let first = Process::start_as(&config, |file| {
            let usual = command(file);
            symlink(usual.get_program(), &program).expect("a free path");
            let mut linked = Command::new(&program);
            linked.args(usual.get_args()).env("NO_COLOR", "1");
            linked.stdin(std::process::Stdio::null());
            let mut changed = change(linked);
            changed.process_group(0);
            changed
        });
        Self {
            first,
            program,
            _folder: folder,
        }
    }

    /// Replaces the binary by a shell script, which can call the binary as `$TOLLGATE`.
    pub fn replace(&self, script: &str) {
        let binary = fs::read_link(&self.program);
        let binary = binary.unwrap_or_else(|_| env!("CARGO_BIN_EXE_tollgate").into());
        let script = format!("#!/bin/sh\nTOLLGATE='{}'\n{script}\n", binary.display());
        // Written under another name first, because a script that is open for writing cannot be run.
        let written = self.program.with_extension("new");
        fs::write(&written, script).expect("the folder is writable");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&written, mode).expect("the file is ours");
        fs::rename(&written, &self.program).expect("the folder is writable");
    }

    /// Puts the link to the binary back.
    pub fn restore(&self) {
        fs::remove_file(&self.program).expect("something is there");
        symlink(env!("CARGO_BIN_EXE_tollgate"), &self.program).expect("a free path");
    }

    /// Runs `tollgate upgrade`.
    pub fn upgrade(&self) -> Output {
        self.run("upgrade")
    }

    /// Runs a command that speaks to the admin port.
    pub fn run(&self, name: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        let file = self.first.file();
        command.arg(name).arg("--config").arg(file);
        command.output().expect("the binary runs")
    }

    /// Runs `tollgate upgrade`, which must succeed; returns the new process's id.
    #[track_caller]
    pub fn upgraded(&self) -> u32 {
        let output = self.upgrade();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let failed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}{failed}");
        let id = said
            .split("(process ")
            .nth(1)
            .and_then(|rest| rest.split(')').next());
        let id = id.and_then(|id| id.parse().ok());
        id.unwrap_or_else(|| panic!("no process in {said}"))
    }

    /// Counts the processes of the group that are alive.
    pub fn living(&self) -> usize {
        let group = self.first.id().to_string();
        let entries = fs::read_dir("/proc").expect("it is there");
        let entries =
            entries.filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok());
        let lives = |stat: &String| {
            // After the name come state, parent and group.
            let fields = stat.rsplit(") ").next().unwrap_or_default();
            let mut fields = fields.split(' ');
            fields.next() != Some("Z") && fields.nth(1) == Some(&group)
        };
        entries.filter(lives).count()
    }
}

impl Drop for Generations {
    fn drop(&mut self) {
        let group = i32::try_from(self.first.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
