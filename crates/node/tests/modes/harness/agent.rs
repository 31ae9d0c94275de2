//! How the agents of Windows nodes are started: as programs of this system, or those of the first node as programs of Windows.

use std::env;
use std::ffi::OsString;
use std::process::Command;

use super::Node;
use crate::program::program;

/// Names transom.exe, which Wine runs in the prefix that WINEPREFIX names. A wineserver makes the sockets of all its programs, so that one
/// node alone can have them.
const EXE: &str = "TRANSOM_EXE";

/// Where hnsd also listens, since Windows has no sockets of Unix.
pub(crate) const LISTEN: &str = "127.0.0.1:9100";

/// Whether agents are programs of Windows.
pub(crate) fn are_windows_programs() -> bool {
    exe().is_some()
}

/// Why agents cannot set routes of their node, if they cannot.
pub(crate) fn cannot_route() -> Option<&'static str> {
    are_windows_programs().then_some("not played: Wine has no functions for setting routes")
}

fn exe() -> Option<OsString> {
    env::var_os(EXE).filter(|exe| !exe.is_empty())
}

/// The command that an agent of a node is started by, and where it finds HNS.
pub(crate) fn command(node: &Node) -> (Command, Vec<String>) {
    match exe().filter(|_| node.number == 1) {
        Some(exe) => {
            let mut command = Command::new("wine");
            command.arg(exe);
            meet_hnsd(&mut command, node);
            // It has no address of its own: it takes the way through the DLL, as on Windows.
            (command, vec!["--hnsd".to_owned(), String::new()])
        }
        None => (Command::new(program()), vec!["--hnsd".to_owned(), format!("unix:{}", node.file("hnsd.sock").display())]),
    }
}

/// Tells the DLLs of a program under Wine where the node's hnsd is.
pub(crate) fn meet_hnsd(command: &mut Command, node: &Node) {
    command.env("TRANSOM_HNSD", LISTEN).env("TRANSOM_TOKEN_FILE", format!("Z:{}", node.file("state").join("token").display()));
}
