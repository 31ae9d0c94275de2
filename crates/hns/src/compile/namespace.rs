//! Namespaces, and what NICs in them are called.
//!
//! Windows has no words for these, so they stand in `AdditionalParams`:
//!
//! | on | field | meaning |
//! |---|---|---|
//! | namespace | `NetworkNamespace` | the file of a network namespace that exists, such as `/run/netns/NAME`: it is used as it is, and stays when the object goes. Without it the switch makes one, which goes with the object |
//! | endpoint | `InterfaceName` | what its NIC is called in the namespace; the first free one of `eth0`, `eth1`, … without it |

use std::path::{Path, PathBuf};

use hcn::endpoint::Endpoint;
use hcn::namespace::Namespace;

use super::CompileError;

/// As many characters as the kernel has room for in a name.
const NAME_MAX: usize = 15;

/// The file of the namespace that exists already, if one is named.
pub fn existing(namespace: &Namespace) -> Result<Option<PathBuf>, CompileError> {
    const FIELD: &str = "AdditionalParams.NetworkNamespace";
    let Some(value) = namespace.additional_params.as_deref().and_then(|params| params.get("NetworkNamespace")) else { return Ok(None) };
    let path = value.as_str().filter(|path| Path::new(path).is_absolute() && !path.contains('\0'));
    let path =
        path.ok_or_else(|| CompileError::new(FIELD, format!("{value} is no file of a network namespace, such as /run/netns/NAME")))?;
    match namespace.namespace_type.is_default() {
        true => Err(CompileError::new(FIELD, "the machine's own namespace has no other file")),
        false => Ok(Some(PathBuf::from(path))),
    }
}

/// What an endpoint's NIC is to be called, if somebody said.
pub fn interface_name(endpoint: &Endpoint) -> Result<Option<String>, CompileError> {
    let Some(value) = endpoint.additional_params.as_deref().and_then(|params| params.get("InterfaceName")) else { return Ok(None) };
    let refusal =
        || CompileError::new("AdditionalParams.InterfaceName", format!("{value} is no name of 1 to {NAME_MAX} characters for a NIC"));
    value.as_str().filter(|name| is_name(name)).map(|name| Some(name.to_owned())).ok_or_else(refusal)
}

/// What the kernel takes for the name of a link.
fn is_name(name: &str) -> bool {
    let forbidden = |character: char| character == '/' || character == ':' || character.is_whitespace() || character.is_control();
    (1..=NAME_MAX).contains(&name.len()) && name != "." && name != ".." && !name.contains(forbidden)
}
