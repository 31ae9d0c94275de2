//! Flags of the original that mean nothing here. Those that change nothing are taken, so that a command line for the original can stay as it is;
//! those that ask for what is not there are refused with the reason.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

const NO_ETCD: &str = "subnets come from Nodes, and there is no etcd here; leave it out";

/// Flags with a value, and why they are refused.
const REFUSED: [(&str, &str); 7] = [
    ("etcd-endpoints", NO_ETCD),
    ("etcd-prefix", NO_ETCD),
    ("etcd-keyfile", NO_ETCD),
    ("etcd-certfile", NO_ETCD),
    ("etcd-cafile", NO_ETCD),
    ("etcd-username", NO_ETCD),
    ("etcd-password", NO_ETCD),
];

/// Flags with a value that change nothing: leases do not expire, nothing is done by iptables, and the log has a flag of its own.
const IGNORED: [&str; 7] =
    ["subnet-lease-renew-margin", "iptables-resync", "v", "vmodule", "stderrthreshold", "log_backtrace_at", "log_dir"];

/// The same with a value that may be missing, as those of yes and no may.
const IGNORED_SWITCHES: [&str; 4] = ["iptables-forward-rules", "ip-blackhole-route", "logtostderr", "alsologtostderr"];

/// Those that were given.
#[derive(Clone, Debug, Default)]
pub(super) struct Foreign {
    given: Vec<&'static str>,
}

impl Foreign {
    /// The first that cannot be taken, and why.
    pub(super) fn refused(&self) -> Option<(&'static str, &'static str)> {
        REFUSED.into_iter().find(|(flag, _)| self.given.contains(flag))
    }

    /// Those that change nothing.
    pub(super) fn ignored(&self) -> impl Iterator<Item = &'static str> {
        self.given.iter().copied().filter(|flag| REFUSED.iter().all(|(refused, _)| refused != flag))
    }
}

fn all() -> impl Iterator<Item = &'static str> {
    REFUSED.into_iter().map(|(flag, _)| flag).chain(IGNORED).chain(IGNORED_SWITCHES)
}

impl Args for Foreign {
    fn augment_args(command: Command) -> Command {
        all().fold(command, |command, flag| {
            let mut arg = Arg::new(flag).long(flag).hide(true).action(ArgAction::Append);
            if flag.len() == 1 {
                arg = arg.short(flag.chars().next());
            }
            if IGNORED_SWITCHES.contains(&flag) {
                arg = arg.num_args(0..=1).require_equals(true);
            }
            command.arg(arg)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Foreign {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self { given: all().filter(|flag| matches.value_source(flag) == Some(ValueSource::CommandLine)).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Foreign {
        let command = Foreign::augment_args(Command::new("flanneld").no_binary_name(true));
        Foreign::from_arg_matches(&command.get_matches_from(line.split_whitespace())).unwrap()
    }

    #[test]
    fn command_lines_for_the_original_are_taken_unless_they_ask_for_what_is_not_there() {
        let harmless = read("--iptables-forward-rules=false --iptables-resync 5 -v 4 --subnet-lease-renew-margin=60 --logtostderr");
        assert_eq!(harmless.refused(), None);
        let mut ignored: Vec<&str> = harmless.ignored().collect();
        ignored.sort_unstable();
        assert_eq!(ignored, ["iptables-forward-rules", "iptables-resync", "logtostderr", "subnet-lease-renew-margin", "v"]);
        let etcd = read("--logtostderr --etcd-endpoints http://10.0.0.1:2379 --etcd-prefix=/x");
        assert_eq!(etcd.refused(), Some(("etcd-endpoints", NO_ETCD)));
        assert_eq!(etcd.ignored().collect::<Vec<_>>(), ["logtostderr"]);
        assert_eq!(read("").ignored().count(), 0);
    }
}
