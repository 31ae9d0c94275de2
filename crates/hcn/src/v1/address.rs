//! Addresses, prefixes and gateways in v1 documents. v1 names a gateway where v2 has a default route.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::base::Route;
use crate::document::{Path, shorten};
use crate::error::{Error, Result, detail};

/// The IPv4 default route's destination.
pub(super) const ANY_V4: &str = "0.0.0.0/0";
/// The IPv6 default route's destination.
pub(super) const ANY_V6: &str = "::/0";

/// Checks an address; none is fine.
pub(super) fn check(text: &str, at: &Path<'_>) -> Result<()> {
    if text.is_empty() || text.parse::<IpAddr>().is_ok() {
        return Ok(());
    }
    let cause = format!("{:?} is no IP address", shorten(text));
    Err(Error::InvalidIp(detail(cause).at(at).remedy("write an address such as 10.244.3.7, or leave the field out")))
}

/// Checks a prefix; none is fine.
pub(super) fn check_prefix(text: &str, at: &Path<'_>) -> Result<()> {
    if text.is_empty() || text.parse::<IpNet>().is_ok() {
        return Ok(());
    }
    let cause = format!("{:?} is no IP prefix", shorten(text));
    Err(Error::InvalidPrefix(detail(cause).at(at).remedy("write a prefix such as 10.244.3.0/24, or leave the field out")))
}

/// The default routes through these gateways; an empty text is no gateway.
pub(super) fn routes_via(gateways: &[&str]) -> Vec<Route> {
    gateways.iter().filter(|gateway| !gateway.is_empty()).map(|gateway| route_via(gateway)).collect()
}

fn route_via(gateway: &str) -> Route {
    let destination = if gateway.contains(':') { ANY_V6 } else { ANY_V4 };
    Route { next_hop: gateway.to_owned(), destination_prefix: destination.to_owned(), ..Route::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_family_decides_about_the_destination() {
        for (gateway, destination) in [("10.0.0.1", "0.0.0.0/0"), ("fd00::1", "::/0")] {
            let routes = routes_via(&["", gateway]);
            assert_eq!(routes.len(), 1);
            assert_eq!(routes[0].destination_prefix, destination);
            assert_eq!(routes[0].next_hop, gateway);
        }
    }

    #[test]
    fn bad_content_is_named() {
        let path = Path::Root.key("GatewayAddress");
        let error = check("ten", &path).unwrap_err();
        assert_eq!((error.hresult(), error.detail().field.as_deref()), (0x803B_001E, Some("GatewayAddress")));
        let error = check_prefix("10.0.0.0/33", &path).unwrap_err();
        assert_eq!((error.hresult(), error.detail().field.as_deref()), (0x803B_0030, Some("GatewayAddress")));
    }
}
