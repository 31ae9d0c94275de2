//! A mixed cluster of Windows and Linux nodes on one machine, with real packets between its pods.
//!
//! * [`topology`]: what a lab consists of, read from a file and checked.
//! * [`home`]: where a running lab can be found.
//! * [`launch`], [`isolation`]: how it gets namespaces of its own.
//! * [`supervisor`]: the process that makes everything inside and keeps it.
//! * [`flows`], [`check`]: what is tried in it, and what the documents say of that.
//! * [`control`], [`status`]: how it is talked to.
//! * [`enter`], [`capture`], [`graph`]: how it is looked at.

#![cfg(target_os = "linux")]

mod api;
mod build;
pub mod capture;
pub mod check;
mod cloud;
mod cni;
pub mod control;
mod daemon;
pub mod end;
pub mod enter;
mod event;
pub mod existing;
mod fabric;
pub mod flows;
mod foreign;
mod gateway;
pub mod graph;
pub mod home;
mod http;
pub mod isolation;
mod join;
mod kubelet;
mod lab;
pub mod launch;
mod names;
mod neighbours;
mod node;
mod outside;
mod owner;
mod readiness;
mod relay;
mod remove;
mod runtime;
mod scheduler;
mod services;
pub mod status;
pub mod supervisor;
mod system;
pub mod topology;
pub mod underlay;
mod wine;
