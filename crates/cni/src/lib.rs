//! The CNI protocol, the plugins that speak it, and how they call each other.
//!
//! A runtime starts a plugin as a program, with variables and a configuration on standard input, and reads its answer
//! from standard output. Here a plugin is a value that implements [`Plugin`]; [`dispatch()`] makes one call of it into
//! a function, and [`process::run`] a program out of that.
//!
//! * [`version`], [`error`], [`environment`], [`netns`], [`config`], [`result`]: the protocol. [`object`] has the rules
//!   by which configurations are read.
//! * [`plugin`]: the trait, and the registry of our plugins. [`dispatch`](mod@dispatch): one call.
//! * [`delegate`]: calling another plugin, ours or not.
//! * [`flannel`]: the plugin that has another one work with flanneld's subnet.
//! * [`lint`]: what is wrong with a configuration file, and where.
//! * [`ipam`]: the plugins that give out addresses.

pub mod config;
pub mod delegate;
pub mod dispatch;
pub mod environment;
pub mod error;
mod file;
pub mod flannel;
pub mod ipam;
pub mod lint;
pub mod netns;
pub mod object;
pub mod plugin;
mod print;
pub mod process;
pub mod result;
pub mod sample;
pub mod version;

pub use config::{Attachment, Config};
pub use delegate::Delegates;
pub use dispatch::{Outcome, dispatch};
pub use environment::{Args, Command, Environment};
pub use error::{Error, Result};
pub use netns::Netns;
pub use object::Object;
pub use plugin::{Call, Plugin, Registry};
pub use result::AddResult;
pub use version::Version;

/// All plugins of ours.
pub fn registry() -> Registry {
    Registry::new(vec![
        Box::new(flannel::Flannel),
        Box::new(ipam::host_local::HostLocal),
        Box::<ipam::azure_vnet::AzureVnetIpam>::default(),
    ])
}
