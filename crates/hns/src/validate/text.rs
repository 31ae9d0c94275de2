//! Text with a meaning: addresses, prefixes, ports and lists of them.
//!
//! Each function reads the text and prints it in its canonical form, so that equal things compare equal later.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use hcn::error::{Detail, Error, Result, detail};
use ipnet::IpNet;
use wire::MacAddress;

/// Makes an error of one kind.
pub(crate) type Code = fn(Box<Detail>) -> Error;

/// An IP address.
pub(crate) fn ip(text: &str, field: &str, code: Code) -> Result<IpAddr> {
    text.trim().parse().map_err(|_| {
        code(detail(format!("{text:?} is no IP address")).field(field).remedy("write an address such as 10.244.1.7 or fd00::7"))
    })
}

/// An IP address in its canonical spelling; empty text stays empty.
pub(crate) fn optional_ip(text: &mut String, field: &str, code: Code) -> Result<()> {
    if !text.is_empty() {
        *text = ip(text, field, code)?.to_string();
    }
    Ok(())
}

/// A prefix. Host bits may be set; a bare address is a prefix of full length.
pub(crate) fn prefix(text: &str, field: &str, code: Code) -> Result<IpNet> {
    let text = text.trim();
    text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).map_err(|_| {
        code(detail(format!("{text:?} is no prefix")).field(field).remedy("write an address and a length such as 10.244.0.0/16"))
    })
}

/// An Ethernet address.
pub(crate) fn mac(text: &str, field: &str, code: Code) -> Result<MacAddress> {
    text.trim().parse().map_err(|error| {
        code(detail(format!("{text:?} is no MAC address: {error}")).field(field).remedy("write an address such as 00-15-5D-52-C0-01"))
    })
}

/// The elements of a comma-separated list.
pub(crate) fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|element| !element.is_empty())
}

/// A comma-separated list of addresses and prefixes, or of names that `is_set` knows, in its canonical spelling.
pub(crate) fn addresses(text: &mut String, field: &str, is_set: &dyn Fn(&str) -> bool) -> Result<()> {
    let canonical = |element: &str| {
        let address = element.parse::<IpAddr>().map(|address| address.to_string());
        let found = address.or_else(|_| element.parse::<IpNet>().map(|prefix| prefix.to_string()));
        found.or_else(|_| if is_set(element) { Ok(element.to_owned()) } else { Err(()) }).map_err(|()| {
            let cause = format!("{element:?} is neither an address nor a prefix nor the id of a set");
            let remedy = "list addresses and prefixes separated by commas; leave the field out to match any";
            Error::InvalidPolicy(detail(cause).field(field).remedy(remedy))
        })
    };
    *text = list(text).map(canonical).collect::<Result<Vec<_>>>()?.join(",");
    Ok(())
}

/// A comma-separated list of ports and ranges of ports, in its canonical spelling.
pub(crate) fn ports(text: &mut String, field: &str) -> Result<()> {
    for element in list(text) {
        if port_range(element).is_none() {
            let cause = format!("{element:?} is neither a port nor a range of ports from a lower to a higher one");
            return Err(Error::InvalidPolicy(detail(cause).field(field).remedy("write ports such as 80,8080-8090")));
        }
    }
    *text = list(text).collect::<Vec<_>>().join(",");
    Ok(())
}

/// A transport port, or a range of them.
pub(crate) fn port_range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse::<u16>().ok()?, last.trim().parse::<u16>().ok()?);
    (first <= last).then_some(first..=last)
}

/// A transport port in a string.
pub(crate) fn port(text: &str, field: &str) -> Result<()> {
    match text.trim().parse::<u16>() {
        Ok(1..) => Ok(()),
        _ => {
            let cause = format!("{text:?} is no port");
            Err(Error::InvalidPolicy(detail(cause).field(field).remedy("write a port from 1 to 65535 as a string, such as \"8080\"")))
        }
    }
}

/// A comma-separated list of IP protocol numbers, or of the names of common ones; in its canonical spelling all are numbers.
pub(crate) fn protocols(text: &mut String, field: &str) -> Result<Vec<u8>> {
    let number = |element: &str| {
        let named = hcn::load_balancer::ProtocolType::from_name(element);
        let number = if named.is_known() { named.number() } else { element.parse().ok() };
        number.and_then(|number| u8::try_from(number).ok()).ok_or_else(|| {
            let cause = format!("{element:?} is no IP protocol");
            Error::InvalidPolicy(detail(cause).field(field).remedy("write protocol numbers such as 6,17"))
        })
    };
    let numbers: Vec<u8> = list(text).map(number).collect::<Result<_>>()?;
    *text = numbers.iter().map(u8::to_string).collect::<Vec<_>>().join(",");
    Ok(numbers)
}
