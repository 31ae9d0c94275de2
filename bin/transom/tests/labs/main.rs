//! Labs, as a person starts, uses and ends them: with the command, real processes and real packets.

#![cfg(target_os = "linux")]

mod chaos;
mod foreign;
mod harness;
mod joined;
mod kubectl;
mod life;
mod machine;
mod mistakes;
mod modes;
mod pods;
