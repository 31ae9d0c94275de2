//! Which service the client commands talk to.

use hcn::Hcn;
use hcn::client::{Address, Client};

use crate::cli::Global;
use crate::exit::{Exit, Failure};

/// The service that the options name: an hnsd, or on Windows the HNS of the machine.
pub(crate) fn connect(options: &Global) -> Result<Box<dyn Hcn>, Failure> {
    // A variable that is set to nothing names nothing.
    match options.hnsd.as_deref().filter(|text| !text.is_empty()) {
        Some(text) => Ok(Box::new(Client::new(address(text, options)?))),
        None => default_service(),
    }
}

/// An address that cannot be read is the command line's fault.
fn address(text: &str, options: &Global) -> Result<Address, Failure> {
    Address::parse(text, options.token_file.as_deref()).map_err(|error| Failure::from(error).exit(Exit::Usage))
}

#[cfg(windows)]
fn default_service() -> Result<Box<dyn Hcn>, Failure> {
    Ok(Box::new(host::windows::WindowsHcn::new()?))
}

#[cfg(not(windows))]
fn default_service() -> Result<Box<dyn Hcn>, Failure> {
    Ok(Box::new(Client::new(Address::from_environment()?)))
}
