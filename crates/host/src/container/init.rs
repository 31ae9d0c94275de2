//! Process 1 of a container: makes its file system, runs what the supervisor asks for, keeps the log, reaps, and ends with
//! everything.

// What runs between two processes has no safe wrapper; the use says why it is sound.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, dup2_stdin, sethostname, setsid};

use super::channel::Channel;
use super::log::{Lines, Log};
use super::message::{Output, Report, Request};
use super::{Process, Spec, exit_code, mounts};

/// Where programs are, for a process whose environment does not say so.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How long processes have when the system itself ends init.
const GRACE: Duration = Duration::from_secs(10);

/// Runs as process 1 of a container, with the channel to the supervisor as standard input, and gives the exit code.
///
/// A program that makes containers calls it before anything else when it is started as [`Program`](super::Program) says: nothing
/// must run besides, neither another thread nor another user of the standard streams.
pub fn init_main() -> u8 {
    match begin() {
        Ok(mut init) => init.run(),
        Err(_) => 1,
    }
}

fn begin() -> io::Result<Init> {
    let channel = Channel::from(io::stdin().as_fd().try_clone_to_owned()?);
    dup2_stdin(OpenOptions::new().read(true).write(true).open("/dev/null")?)?;
    let Some((spec, files)) = channel.receive::<Spec>()? else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    match make(spec, files) {
        Ok((spec, log, signals, notes)) => {
            channel.send(&Report::Ready(notes), &[])?;
            Ok(Init { channel, spec, log, signals, outputs: Vec::new(), spawned: BTreeSet::new(), deadline: None })
        }
        Err(error) => {
            channel.send(&Report::Failed(error.to_string()), &[])?;
            Err(error)
        }
    }
}

type Made = (Spec, Option<Log>, SignalFd, Vec<String>);

fn make(spec: Spec, files: Vec<OwnedFd>) -> io::Result<Made> {
    // A key pressed at the supervisor's terminal is not meant for the container. A leader of a session already is out of it.
    let _ = setsid();
    let signals = SigSet::from_iter([Signal::SIGCHLD, Signal::SIGTERM]);
    signals.thread_block()?;
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    if !spec.host_name.is_empty() {
        sethostname(&spec.host_name)?;
    }
    let name = spec.log.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let log = match (name, files.into_iter().next()) {
        (Some(name), Some(directory)) => Some(Log::open(directory, name, spec.log_limit)?),
        _ => None,
    };
    let notes = mounts::prepare(&spec)?;
    Ok((spec, log, signals, notes))
}

struct Init {
    channel: Channel,
    spec: Spec,
    log: Option<Log>,
    signals: SignalFd,
    outputs: Vec<Writer>,
    /// Processes whose end somebody wants to know. Others are orphans that came to us.
    spawned: BTreeSet<u32>,
    deadline: Option<Instant>,
}

/// One stream of a process.
struct Writer {
    pipe: io::PipeReader,
    lines: Lines,
}

/// What there is to do.
#[derive(Clone, Copy, Default)]
struct Due {
    requests: bool,
    signals: bool,
    outputs: bool,
}

impl Init {
    fn run(&mut self) -> u8 {
        while let Ok(due) = self.wait() {
            if due.outputs {
                self.pump();
            }
            if due.signals && self.take_signals().is_err() {
                break;
            }
            if due.requests && !self.take_request() {
                break;
            }
            if self.is_over() {
                break;
            }
        }
        self.pump();
        self.outputs.drain(..).for_each(|mut output| {
            if let Some(log) = &mut self.log {
                output.lines.finish(log);
            }
        });
        // The kernel ends whatever still runs with process 1.
        0
    }

    fn wait(&self) -> io::Result<Due> {
        let mut waited = vec![PollFd::new(self.channel.as_fd(), PollFlags::POLLIN), PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        waited.extend(self.outputs.iter().map(|output| PollFd::new(output.pipe.as_fd(), PollFlags::POLLIN)));
        match poll(&mut waited, self.time_left()) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let is_due = |waited: &PollFd<'_>| waited.any().unwrap_or(false);
        Ok(Due { requests: is_due(&waited[0]), signals: is_due(&waited[1]), outputs: waited[2..].iter().any(is_due) })
    }

    fn time_left(&self) -> PollTimeout {
        let Some(deadline) = self.deadline else {
            return PollTimeout::NONE;
        };
        // One millisecond more: a time that is rounded down would be waited for again and again.
        let left = deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
    }

    /// Copies to the log what can be read without waiting.
    fn pump(&mut self) {
        let Some(log) = &mut self.log else {
            return;
        };
        let mut bytes = [0; 8192];
        self.outputs.retain_mut(|output| {
            while has_input(&output.pipe) {
                match output.pipe.read(&mut bytes) {
                    Ok(0) | Err(_) => {
                        output.lines.finish(log);
                        return false;
                    }
                    Ok(count) => output.lines.take(&bytes[..count], log),
                }
            }
            true
        });
    }

    fn take_signals(&mut self) -> io::Result<()> {
        while let Some(signal) = self.signals.read_signal()? {
            if signal.ssi_signo == Signal::SIGTERM as u32 {
                self.stop(GRACE);
            }
        }
        // What a process wrote last is in the log when its end is told.
        self.pump();
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            match exit_code(status) {
                Some((pid, code)) if self.spawned.remove(&pid) => self.channel.send(&Report::Exited { pid, code }, &[])?,
                Some(_) => {}
                None => break,
            }
        }
        Ok(())
    }

    /// Does what is asked; false if nobody is there to ask any more.
    fn take_request(&mut self) -> bool {
        let Ok(Some((request, files))) = self.channel.receive::<Request>() else {
            return false;
        };
        let answer = match request {
            Request::Spawn(process, output) => self.spawn(&process, output, files).map(Report::Spawned),
            Request::Signal { pid, signal } => send_signal(pid, signal).map(|()| Report::Signalled),
            Request::Stop { grace_ms } => {
                self.stop(Duration::from_millis(grace_ms));
                return true;
            }
        };
        let report = answer.unwrap_or_else(|error| Report::Refused { os_error: error.raw_os_error(), message: error.to_string() });
        self.channel.send(&report, &[]).is_ok()
    }

    fn spawn(&mut self, process: &Process, output: Output, files: Vec<OwnedFd>) -> io::Result<u32> {
        let Some((program, arguments)) = process.arguments.split_first() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a process has a command"));
        };
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(self.environment(process));
        command.current_dir(process.directory.as_deref().unwrap_or(Path::new("/")));
        // SAFETY: all it does is a call that may be made between the two halves of starting a process.
        unsafe { command.pre_exec(|| Ok(SigSet::empty().thread_set_mask()?)) };
        let writers = self.connect(&mut command, output, files)?;
        let child = command.spawn()?;
        self.outputs.extend(writers);
        self.spawned.insert(child.id());
        Ok(child.id())
    }

    fn environment(&self, process: &Process) -> BTreeMap<String, String> {
        let mut environment = process.environment.clone();
        let mut add = |name: &str, value: &str| _ = environment.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        add("PATH", PATH);
        add("HOSTNAME", &self.spec.host_name);
        if let Some(scratch) = &self.spec.scratch {
            add("TMPDIR", &scratch.to_string_lossy());
        }
        environment
    }

    /// Gives a command its streams, and us our ends of them.
    fn connect(&self, command: &mut Command, output: Output, files: Vec<OwnedFd>) -> io::Result<Vec<Writer>> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match (output, <[OwnedFd; 3]>::try_from(files)) {
            (Output::Given, Ok([input, output, errors])) => {
                command.stdin(input).stdout(output).stderr(errors);
                Ok(Vec::new())
            }
            (Output::Given, Err(_)) => Err(io::Error::new(io::ErrorKind::InvalidInput, "three streams are needed")),
            (Output::Log, _) if self.log.is_some() => {
                let (output, output_end) = io::pipe()?;
                let (errors, errors_end) = io::pipe()?;
                command.stdout(output_end).stderr(errors_end);
                let writer = |pipe, stream| Writer { pipe, lines: Lines::new(stream) };
                Ok(vec![writer(output, "stdout"), writer(errors, "stderr")])
            }
            _ => Ok(Vec::new()),
        }
    }

    fn stop(&mut self, grace: Duration) {
        self.deadline.get_or_insert_with(|| Instant::now() + grace);
        // Everybody but ourselves.
        let _ = kill(Pid::from_raw(-1), Signal::SIGTERM);
    }

    /// Whether init may end: it was told to, and nobody is left or time is up.
    fn is_over(&self) -> bool {
        let Some(deadline) = self.deadline else {
            return false;
        };
        Instant::now() >= deadline || kill(Pid::from_raw(-1), None) == Err(Errno::ESRCH)
    }
}

fn has_input(pipe: &io::PipeReader) -> bool {
    let mut waited = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    poll(&mut waited, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

fn send_signal(pid: u32, signal: i32) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 1).ok_or(Errno::ESRCH)?;
    Ok(kill(Pid::from_raw(pid), Signal::try_from(signal)?)?)
}

/// The directory of a log, opened where it can be written to.
pub(super) fn open_log_directory(log: &Path) -> io::Result<File> {
    let directory = log.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory).map_err(|error| io::Error::new(error.kind(), format!("could not open {}: {error}", directory.display())))
}
