//! Bulk data, checked byte by byte: a TCP stream in both directions, and a train of datagrams.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use crate::cable::PATIENCE;
use crate::packet::send_train;
use crate::space::Space;

/// How much goes each way.
pub(crate) const LENGTH: usize = 24 << 20;

/// Sends data from one namespace to an address in the other and back, and checks every byte.
pub(crate) fn exchange(from: &Space, to: &Space, address: SocketAddr) {
    let listener = to.run(|| listen(address));
    thread::scope(|scope| {
        let echo = scope.spawn(move || {
            let mut stream = accept(&listener);
            check(&mut stream, 1);
            send(&mut stream, 2);
        });
        let mut stream = from.run(|| connect(address));
        send(&mut stream, 1);
        check(&mut stream, 2);
        echo.join().expect("the other side checked its data");
    });
}

/// Sends a train of datagrams from one namespace to the other, and checks that each arrives.
pub(crate) fn train(from: &Space, local: &str, to: &Space, address: &str) {
    const SIZE: usize = 1000;
    let receiver = to.run(|| UdpSocket::bind(address)).expect("a receiving socket");
    receiver.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let sender = from.run(|| UdpSocket::bind(local)).expect("a sending socket");
    // The neighbour must be known first, as only one packet waits for that.
    sender.send_to(b"hello", address).expect("a datagram");
    let mut data = [0; 2 * SIZE];
    assert_eq!(receiver.recv(&mut data).expect("a datagram"), 5);
    let mut bytes = vec![0; 20 * SIZE + 500];
    fill(&mut bytes, 3, 0);
    send_train(&sender, &bytes, SIZE as u16, address);
    for (index, expected) in bytes.chunks(SIZE).enumerate() {
        let length = receiver.recv(&mut data).expect("a datagram of the train");
        assert!(data[..length] == *expected, "datagram {index} of {length} bytes differs");
    }
}

/// An IPv6 address may take a moment to be usable.
fn listen(address: SocketAddr) -> TcpListener {
    for _ in 0..200 {
        if let Ok(listener) = TcpListener::bind(address) {
            return listener;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("{address} cannot be listened on");
}

fn connect(address: SocketAddr) -> TcpStream {
    impatient(TcpStream::connect_timeout(&address, PATIENCE).expect("a connection through the NICs"))
}

fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("a listener that does not wait");
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(false).expect("a stream that waits");
            return impatient(stream);
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("nobody connected");
}

fn impatient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

fn send(stream: &mut TcpStream, seed: u64) {
    let mut block = vec![0; 1 << 16];
    for at in (0..LENGTH).step_by(block.len()) {
        fill(&mut block, seed, at);
        stream.write_all(&block).expect("the stream takes data");
    }
    stream.shutdown(Shutdown::Write).expect("the stream ends");
}

fn check(stream: &mut TcpStream, seed: u64) {
    let (mut block, mut expected) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    for at in (0..LENGTH).step_by(block.len()) {
        stream.read_exact(&mut block).expect("the stream has data");
        fill(&mut expected, seed, at);
        assert!(block == expected, "the data differ within {} bytes from {at} on", block.len());
    }
    assert_eq!(stream.read(&mut block).expect("the stream ends"), 0);
}

/// Bytes that are different at every place.
fn fill(block: &mut [u8], seed: u64, at: usize) {
    for (index, word) in block.chunks_exact_mut(8).enumerate() {
        let place = (at + 8 * index) as u64;
        word.copy_from_slice(&(place ^ seed << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    }
}
