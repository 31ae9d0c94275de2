//! The server as its clients see it: over real HTTPS, from outside.

mod basics;
mod common;
mod controllers;
mod objects;
