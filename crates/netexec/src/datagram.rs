//! The commands over UDP: `hostname`, `echo TEXT`, `clientip`. What is none of them gets no answer.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use crate::server::plain;

/// The longest command.
const LIMIT: usize = 2048;

/// Answers for as long as the socket works.
pub fn serve(socket: &UdpSocket) {
    let mut bytes = [0; LIMIT];
    loop {
        match socket.recv_from(&mut bytes) {
            Ok((count, client)) => {
                if let Some(text) = answer(&String::from_utf8_lossy(&bytes[..count]), client) {
                    let _ = socket.send_to(text.as_bytes(), client);
                }
            }
            // What an earlier answer met with is told here; the next command is another matter.
            Err(error) if is_passing(&error) => {}
            Err(_) => return,
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted)
        || matches!(error.kind(), io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable)
}

/// The answer to a command. Like the original, it makes small letters of all.
fn answer(text: &str, client: SocketAddr) -> Option<String> {
    let text = text.trim().to_lowercase();
    match text.as_str() {
        "hostname" => Some(crate::host_name()),
        "clientip" => Some(plain(client).to_string()),
        _ => text.strip_prefix("echo ").map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_their_answers() {
        let client = "[::ffff:10.0.0.1]:99".parse().unwrap();
        assert_eq!(answer("ECHO Hi there\n", client).as_deref(), Some("hi there"));
        assert_eq!(answer("clientip", client).as_deref(), Some("10.0.0.1:99"));
        assert_eq!(answer("hostName", client), Some(crate::host_name()));
        assert_eq!(answer("what", client), None);
    }
}
