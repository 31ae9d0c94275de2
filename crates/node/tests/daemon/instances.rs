//! Two of them, and sockets that are not ours.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::hnsd::{Hnsd, Place};
use crate::server::program;

/// The user `nobody`.
const NOBODY: u32 = 65534;

const CONFLICT: i32 = 4;

fn second(state: &Path, socket: &Path) -> Command {
    let mut command = Command::new(program());
    command.args(["hnsd", "--switch", "none"]).arg("--state-dir").arg(state).arg("--socket").arg(socket);
    command
}

#[test]
fn a_second_one_on_the_same_state_is_refused() {
    let (place, hnsd) = Hnsd::new();
    let other_socket = place.path("other.sock");
    let (code, said) = place.refuses(&mut second(&place.path("state"), &other_socket));
    assert_eq!(code, CONFLICT, "{said}");
    let first = format!("hnsd (process {}, socket {})", hnsd.process(), hnsd.socket.display());
    assert!(said.contains(&first) && said.contains("--state-dir"), "{said}");
    assert!(!other_socket.exists());
    hnsd.assert_works();
}

#[test]
fn a_second_one_on_the_same_socket_is_refused() {
    let (place, hnsd) = Hnsd::new();
    let (code, said) = place.refuses(&mut second(&place.path("other"), &hnsd.socket));
    assert_eq!(code, CONFLICT, "{said}");
    assert!(said.contains(&hnsd.socket.display().to_string()) && said.contains("--socket"), "{said}");
    hnsd.assert_works();
}

#[test]
fn a_file_in_the_sockets_place_is_left_alone() {
    let place = Place::new();
    fs::write(place.home.socket(), "precious").unwrap();
    let (code, said) = place.refuses(&mut place.command(&[]));
    assert_ne!(code, 0);
    assert!(said.contains(&place.home.socket().display().to_string()) && said.contains("no socket"), "{said}");
    assert_eq!(fs::read_to_string(place.home.socket()).unwrap(), "precious");
}

#[test]
fn the_socket_of_one_that_was_killed_is_replaced() {
    let (place, hnsd) = Hnsd::new();
    hnsd.kill();
    assert!(place.home.socket().exists(), "nobody was there to remove it");
    place.start(&[]).assert_works();
}

#[test]
fn the_socket_is_for_its_owner() {
    let (_place, hnsd) = Hnsd::new();
    assert_eq!(fs::metadata(&hnsd.socket).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_socket_of_somebody_else_is_left_alone() {
    if let Err(error) = expect_root() {
        return skip("a_socket_of_somebody_else_is_left_alone", &error);
    }
    let place = Place::new();
    drop(UnixListener::bind(place.home.socket()).unwrap());
    if let Err(error) = chown(place.home.socket(), Some(NOBODY), None) {
        return skip("a_socket_of_somebody_else_is_left_alone", &error);
    }
    let (code, said) = place.refuses(&mut place.command(&[]));
    assert_ne!(code, 0);
    assert!(said.contains(&format!("belongs to the user {NOBODY}")) && said.contains("--socket"), "{said}");
    assert!(place.home.socket().exists());
}

#[test]
fn another_user_is_refused_even_where_the_file_would_let_it_in() {
    if let Err(error) = expect_root() {
        return skip("another_user_is_refused_even_where_the_file_would_let_it_in", &error);
    }
    let (place, hnsd) = Hnsd::new();
    // Whoever can run the program and reach the socket is stopped by nothing but hnsd.
    let copy = place.path("transom");
    // By a process of its own: a file that this one has written may still be open in a child that another test starts.
    assert!(Command::new("cp").arg(program()).arg(&copy).status().unwrap().success());
    let open = |path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    open(place.path(""), 0o755);
    open(copy.clone(), 0o755);
    open(hnsd.socket.clone(), 0o666);
    let list = |user: Option<u32>| -> io::Result<Output> {
        let mut command = Command::new(&copy);
        command.arg("--hnsd").arg(&hnsd.socket).args(["namespace", "list"]);
        user.map(|user| command.uid(user).gid(user));
        command.output()
    };
    let own = list(None).unwrap();
    assert!(own.status.success(), "{own:?}");
    let other = match list(Some(NOBODY)) {
        Ok(other) => other,
        Err(error) => return skip("another_user_is_refused_even_where_the_file_would_let_it_in", &error),
    };
    assert!(!other.status.success(), "{other:?}");
    assert!(place.home.last_words().contains("another user was refused"), "{}", place.home.last_words());
    hnsd.assert_works();
}

/// Even root may be forbidden to act as somebody else, which shows only when it tries.
fn expect_root() -> io::Result<()> {
    match host::socket::own_user() {
        0 => Ok(()),
        user => Err(io::Error::other(format!("this is user {user}"))),
    }
}

fn skip(test: &str, error: &io::Error) {
    println!("skipped: {test}: only root can act as somebody else ({error})");
}
