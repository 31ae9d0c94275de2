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
//! * [`win_bridge`], [`win_overlay`], [`nat`], [`azure_vnet`]: the plugins that attach containers to networks of an HNS; [`hns`] is what they share.

pub mod azure_vnet;
pub mod config;
pub mod delegate;
pub mod dispatch;
pub mod environment;
pub mod error;
mod file;
pub mod flannel;
pub mod hns;
pub mod ipam;
pub mod lint;
pub mod nat;
pub mod netns;
pub mod object;
pub mod plugin;
mod print;
pub mod process;
pub mod result;
pub mod sample;
pub mod version;
pub mod win_bridge;
pub mod win_overlay;

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
    let hns = hns::Hns::of_machine;
    Registry::new(vec![
        Box::new(flannel::Flannel),
        Box::new(ipam::host_local::HostLocal),
        Box::new(ipam::azure_vnet::AzureVnetIpam::new(ipam::azure_vnet::Name::Ipv4)),
        Box::new(ipam::azure_vnet::AzureVnetIpam::new(ipam::azure_vnet::Name::Ipv6)),
        Box::new(win_bridge::WinBridge::new(hns())),
        Box::new(win_overlay::WinOverlay::new(hns())),
        Box::new(nat::Nat::new(nat::Name::Nat, hns())),
        Box::new(nat::Nat::new(nat::Name::SdnBridge, hns())),
        Box::new(nat::Nat::new(nat::Name::SdnOverlay, hns())),
        Box::new(azure_vnet::AzureVnet::new(hns())),
    ])
}
