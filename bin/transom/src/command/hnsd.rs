//! Running the Host Networking Service.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use hcn::client::{default_socket, default_state_directory};
use hns::Build;
use host::lock::LockError;
use host::socket::SocketError;
use node::hnsd::{AdapterSpec, Error, Options};

use crate::exit::{Exit, Failure};

/// Run the Host Networking Service
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct HnsdArgs {
    /// Where the service keeps what it must not forget
    #[arg(long, value_name = "DIR", env = "TRANSOM_STATE_DIR", default_value_os_t = default_state_directory())]
    pub(crate) state_dir: PathBuf,
    /// The Unix socket to serve
    #[arg(long, value_name = "PATH", default_value_os_t = default_socket())]
    pub(crate) socket: PathBuf,
    /// Also serve TCP, on loopback only and behind a token; port 0 takes any
    #[arg(long, value_name = "ADDRESS", value_parser = loopback)]
    pub(crate) listen: Option<SocketAddr>,
    /// Write the number of the TCP port there, once it is open
    #[arg(long, value_name = "FILE")]
    pub(crate) port_file: Option<PathBuf>,
    /// The Windows build to run as; see `transom profile list`
    #[arg(long, value_name = "NAME", default_value = "transom")]
    pub(crate) profile: String,
    /// Add a feature, limit or defect to the profile; see `transom profile show NAME`
    #[arg(long, value_name = "ITEM")]
    pub(crate) with: Vec<String>,
    /// Take a feature, limit or defect away from the profile
    #[arg(long, value_name = "ITEM")]
    pub(crate) without: Vec<String>,
    /// An adapter that networks can be bound to: NAME=INTERFACE for one of this machine,
    /// or NAME,ip=ADDRESS/LENGTH,mac=MAC for one that is only talked about
    #[arg(long = "adapter", value_name = "SPEC")]
    pub(crate) adapters: Vec<AdapterSpec>,
    /// The socket of the switch that makes documents true, or none to keep documents only
    #[arg(long, value_name = "PATH|none", env = "TRANSOM_VSWITCHD", default_value_os_t = node::vswitchd::default_socket())]
    pub(crate) switch: PathBuf,
    /// What to log: error, warn, info, debug, trace, or directives such as hns=debug
    #[arg(long, value_name = "LEVEL", env = "TRANSOM_LOG", default_value = "info")]
    pub(crate) log_level: String,
    /// Start afresh if the state cannot be read, and keep the unreadable file beside it
    #[arg(long)]
    pub(crate) set_aside_unreadable_state: bool,
}

const EXAMPLES: &str = "\
--token-file defaults to the file `token` in the state directory; it is made when it is missing.

Examples:
  transom hnsd
  transom hnsd --profile ws2022 --without overlay-node-port
  transom hnsd --listen 127.0.0.1:0 --port-file /run/transom/port --adapter Ethernet=eth0";

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "write address and port, such as 127.0.0.1:7777".to_owned())?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err("only a loopback address is allowed, such as 127.0.0.1; the service is not for other machines".to_owned()),
    }
}

/// Runs the service until it is told to stop.
pub(crate) fn run(args: HnsdArgs, token_file: Option<PathBuf>) -> Result<(), Failure> {
    super::log::start(&args.log_level)?;
    let usage = |error: hcn::Error| Failure::from(error).exit(Exit::Usage);
    let options = Options {
        token_file: token_file.unwrap_or_else(|| args.state_dir.join("token")),
        build: Build::named(&args.profile, &args.with, &args.without).map_err(usage)?,
        state_dir: args.state_dir,
        socket: args.socket,
        listen: args.listen,
        port_file: args.port_file,
        switch: Some(args.switch).filter(|switch| switch.as_os_str() != "none"),
        adapters: args.adapters,
        set_aside_unreadable: args.set_aside_unreadable_state,
    };
    node::hnsd::run(options).map_err(|error| Failure::new(exit(&error), error.to_string()))
}

fn exit(error: &Error) -> Exit {
    match error {
        Error::Lock(LockError::Held { .. }) | Error::Socket(SocketError::InUse(_)) => Exit::Conflict,
        Error::NotLoopback(_) => Exit::Usage,
        Error::Io(_, error) if error.kind() == io::ErrorKind::PermissionDenied => Exit::Refused,
        _ => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_listened_on() {
        assert!(loopback("127.0.0.1:0").is_ok() && loopback("[::1]:7777").is_ok());
        assert!(loopback("0.0.0.0:7777").is_err() && loopback("192.0.2.1:7777").is_err() && loopback("7777").is_err());
    }
}
