//! What CI and people run.

mod bench;
mod ci;
mod dist;
mod interop;
mod tidy;

fn main() {}
