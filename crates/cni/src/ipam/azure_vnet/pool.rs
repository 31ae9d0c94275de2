//! Address spaces, pools and the addresses in them, as they stand in the state file; who gets which address.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

/// A set of pools. There is one, `local`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct AddressSpace {
    pub(super) id: String,
    pub(super) scope: i64,
    #[serde(deserialize_with = "or_default")]
    pub(super) pools: BTreeMap<String, Pool>,
}

/// The addresses of a subnet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Pool {
    pub(super) id: String,
    pub(super) if_name: String,
    /// As Go prints it: the address, and the mask in base 64. The id has the same, and is what is read.
    pub(super) subnet: Value,
    pub(super) gateway: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) addresses: BTreeMap<String, Record>,
    #[serde(rename = "IsIPv6")]
    pub(super) is_ipv6: bool,
    pub(super) priority: i64,
    pub(super) ref_count: i64,
}

/// One address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Record {
    /// The container that has it.
    #[serde(rename = "ID")]
    pub(super) id: String,
    pub(super) addr: String,
    pub(super) in_use: bool,
    /// The network that it was given out on. The reference neither writes it nor minds it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) network: String,
}

/// Go writes `null` for a map that nobody has made.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Which address somebody wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    /// The container.
    pub(super) container_id: String,
    /// The network.
    pub(super) network: String,
    /// The pool; any if there is none.
    pub(super) pool: Option<String>,
    /// The family of the pools, where none is named.
    pub(super) ipv6: bool,
    /// The interface whose pools may be taken; any if it is empty.
    pub(super) master: String,
    /// The address; any if it is empty.
    pub(super) address: String,
}

/// Why there is no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There is no pool with this id.
    NoPool(String),
    /// There is no pool on this interface, or none at all.
    NoPools,
    /// No pool has this address.
    NoAddress,
    /// Somebody else has this address.
    Taken(String),
    /// All of them are taken, this many.
    Exhausted(usize),
}

impl Pool {
    /// A pool with nobody in it, and its id.
    pub(super) fn new(subnet: IpNet, if_name: &str, priority: i64, addresses: Vec<IpAddr>) -> (String, Self) {
        let id = subnet.to_string();
        let record = |address: IpAddr| (address.to_string(), Record { addr: address.to_string(), ..Record::default() });
        let pool = Self {
            id: id.clone(),
            if_name: if_name.to_owned(),
            subnet: json!({"IP": subnet.network().to_string(), "Mask": base64(&octets(subnet.netmask()))}),
            gateway: gateway(subnet).to_string(),
            addresses: addresses.into_iter().map(record).collect(),
            is_ipv6: matches!(subnet, IpNet::V6(_)),
            priority,
            ref_count: 0,
        };
        (id, pool)
    }

    fn is_used(&self) -> bool {
        self.addresses.values().any(Record::is_used)
    }
}

impl Record {
    fn is_used(&self) -> bool {
        self.in_use || !self.id.is_empty()
    }

    /// Gives it back.
    pub(super) fn release(&mut self) {
        *self = Self { addr: std::mem::take(&mut self.addr), ..Self::default() };
    }
}

impl AddressSpace {
    /// Takes over what a source says now. What has vanished goes, unless somebody has it; that goes once it is given back.
    pub(super) fn merge(&mut self, fresh: BTreeMap<String, Pool>) {
        for (id, pool) in &mut self.pools {
            let listed = fresh.get(id);
            pool.addresses.retain(|address, record| record.is_used() || listed.is_some_and(|pool| pool.addresses.contains_key(address)));
        }
        self.pools.retain(|id, pool| fresh.contains_key(id) || pool.is_used());
        for (id, pool) in fresh {
            let known = self.pools.entry(id).or_insert_with(|| Pool { addresses: BTreeMap::new(), ..pool.clone() });
            for (address, record) in pool.addresses {
                known.addresses.entry(address).or_insert(record);
            }
        }
    }

    /// Takes an address, and gives the pool and the address. A container that has one gets the same again.
    pub(super) fn request(&mut self, wish: &Wish) -> Result<(&Pool, String), Refusal> {
        let (pool, address) = self.choose(wish)?;
        let pool = self.pools.get_mut(&pool).ok_or(Refusal::NoPools)?;
        if wish.pool.is_none() {
            // The reference counts whom it chose the pool for, and chooses only among those that nobody counts in.
            pool.ref_count = pool.ref_count.max(1);
        }
        let record = pool.addresses.get_mut(&address).ok_or(Refusal::NoAddress)?;
        *record = Record { id: wish.container_id.clone(), addr: address.clone(), in_use: true, network: wish.network.clone() };
        Ok((pool, address))
    }

    /// The pool and the address that fit a wish.
    fn choose(&self, wish: &Wish) -> Result<(String, String), Refusal> {
        let mut pools: Vec<(&String, &Pool)> = match &wish.pool {
            Some(id) => vec![self.pools.get_key_value(id).ok_or_else(|| Refusal::NoPool(id.clone()))?],
            None => {
                let is_wanted = |pool: &Pool| pool.is_ipv6 == wish.ipv6 && (wish.master.is_empty() || wish.master == pool.if_name);
                self.pools.iter().filter(|(_, pool)| is_wanted(pool)).collect()
            }
        };
        if pools.is_empty() {
            return Err(Refusal::NoPools);
        }
        let records = || pools.iter().flat_map(|(id, pool)| pool.addresses.iter().map(|(address, record)| (*id, address, record)));
        let found = |(id, address, _): (&String, &String, &Record)| (id.clone(), address.clone());
        if !wish.address.is_empty() {
            let (id, address, record) = records().find(|(_, address, _)| **address == wish.address).ok_or(Refusal::NoAddress)?;
            return match record.is_used() && record.id != wish.container_id {
                true => Err(Refusal::Taken(record.id.clone())),
                false => Ok((id.clone(), address.clone())),
            };
        }
        if let Some(held) = records().find(|(_, _, record)| record.id == wish.container_id && record.is_used()) {
            return Ok(found(held));
        }
        let taken = records().count();
        // A pool that nobody uses comes first, since each network of the reference has one of its own.
        pools.sort_by_key(|(_, pool)| (pool.is_used(), Reverse(pool.priority), Reverse(pool.addresses.len())));
        let free = |(id, pool): &(&String, &Pool)| {
            let free = pool.addresses.iter().filter(|(_, record)| !record.is_used());
            free.filter_map(|(address, _)| Some((address.parse::<IpAddr>().ok()?, address)))
                .min()
                .map(|(_, address)| ((*id).clone(), address.clone()))
        };
        pools.iter().find_map(free).ok_or(Refusal::Exhausted(taken))
    }

    /// Gives back the addresses of which this is true, which is asked with the pool's id.
    pub(super) fn release(&mut self, is_meant: impl Fn(&str, &Record) -> bool) -> usize {
        let records = self.pools.iter_mut().flat_map(|(id, pool)| pool.addresses.values_mut().map(move |record| (id, record)));
        records.filter_map(|(id, record)| (record.is_used() && is_meant(id, record)).then(|| record.release())).count()
    }

    /// Every address that a container has.
    pub(super) fn held(&self, container_id: &str) -> Vec<&str> {
        let records = self.pools.values().flat_map(|pool| pool.addresses.values());
        records.filter(|record| record.in_use && record.id == container_id).map(|record| record.addr.as_str()).collect()
    }
}

/// The first address of a subnet: its number with the lowest bit set.
fn gateway(subnet: IpNet) -> IpAddr {
    match subnet.network() {
        IpAddr::V4(address) => IpAddr::V4((u32::from(address) | 1).into()),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) | 1).into()),
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let number = group.iter().chain([&0, &0]).take(3).fold(0u32, |number, byte| number << 8 | u32::from(*byte));
        for digit in 0..4 {
            let index = (number >> (18 - 6 * digit)) as usize & 63;
            text.push(if digit <= group.len() { DIGITS[index].into() } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(pools: &[(&str, &str, i64, &[&str])]) -> AddressSpace {
        let pool = |(subnet, name, priority, addresses): &(&str, &str, i64, &[&str])| {
            Pool::new(subnet.parse().unwrap(), name, *priority, addresses.iter().map(|address| address.parse().unwrap()).collect())
        };
        AddressSpace { id: "local".to_owned(), scope: 0, pools: pools.iter().map(pool).collect() }
    }

    fn request(space: &mut AddressSpace, container_id: &str, wish: Wish) -> Result<String, Refusal> {
        space.request(&Wish { container_id: container_id.to_owned(), ..wish }).map(|(_, address)| address)
    }

    #[test]
    fn masks_are_printed_as_go_prints_them() {
        assert_eq!(base64(&[255, 255, 0, 0]), "//8AAA==");
        assert_eq!(base64(&[0; 4]), "AAAAAA==");
        assert_eq!(base64(&[255; 16]), "/////////////////////w==");
        assert_eq!(base64(b"Man"), "TWFu");
        assert_eq!(base64(b"Ma"), "TWE=");
    }

    #[test]
    fn a_container_gets_the_same_again_and_others_another() {
        let mut space = space(&[("10.0.0.0/24", "eth0", 0, &["10.0.0.10", "10.0.0.9"])]);
        assert_eq!(request(&mut space, "a", Wish::default()), Ok("10.0.0.9".into()));
        assert_eq!(request(&mut space, "a", Wish::default()), Ok("10.0.0.9".into()));
        assert_eq!(request(&mut space, "b", Wish::default()), Ok("10.0.0.10".into()));
        assert_eq!(request(&mut space, "c", Wish::default()), Err(Refusal::Exhausted(2)));
        let wanted = |address: &str| Wish { address: address.to_owned(), ..Wish::default() };
        assert_eq!(request(&mut space, "c", wanted("10.0.0.9")), Err(Refusal::Taken("a".into())));
        assert_eq!(request(&mut space, "a", wanted("10.0.0.9")), Ok("10.0.0.9".into()));
        assert_eq!(request(&mut space, "c", wanted("10.0.0.77")), Err(Refusal::NoAddress));
    }

    #[test]
    fn pools_are_chosen_by_use_priority_and_size() {
        let mut space = space(&[
            ("10.0.0.0/24", "eth0", 0, &["10.0.0.9", "10.0.0.10"]),
            ("10.1.0.0/24", "eth1", 1, &["10.1.0.9"]),
            ("fd00::/64", "eth1", 1, &["fd00::9"]),
        ]);
        assert_eq!(request(&mut space, "a", Wish::default()), Ok("10.1.0.9".into()));
        assert_eq!(request(&mut space, "b", Wish::default()), Ok("10.0.0.9".into()));
        assert_eq!(request(&mut space, "c", Wish::default()), Ok("10.0.0.10".into()));
        let on = |master: &str| Wish { master: master.to_owned(), ..Wish::default() };
        assert_eq!(request(&mut space, "d", on("eth9")), Err(Refusal::NoPools));
        assert_eq!(request(&mut space, "e", Wish { ipv6: true, ..Wish::default() }), Ok("fd00::9".into()));
        assert_eq!(space.release(|_, record| record.id == "e"), 1);
        let of = |pool: &str| Wish { pool: Some(pool.to_owned()), ..Wish::default() };
        assert_eq!(request(&mut space, "d", of("fd00::/64")), Ok("fd00::9".into()));
        assert_eq!(request(&mut space, "d", of("10.9.0.0/24")), Err(Refusal::NoPool("10.9.0.0/24".into())));
    }

    #[test]
    fn what_vanished_goes_unless_somebody_has_it() {
        let mut old = space(&[("10.0.0.0/24", "eth0", 0, &["10.0.0.8", "10.0.0.9"]), ("10.1.0.0/24", "eth0", 0, &["10.1.0.9"])]);
        assert_eq!(request(&mut old, "a", Wish { address: "10.0.0.8".into(), ..Wish::default() }), Ok("10.0.0.8".into()));
        let fresh = || space(&[("10.0.0.0/24", "eth0", 0, &["10.0.0.10"]), ("10.2.0.0/24", "eth0", 0, &["10.2.0.9"])]).pools;
        let addresses =
            |space: &AddressSpace| space.pools.values().flat_map(|pool| pool.addresses.keys().cloned()).collect::<Vec<_>>().join(" ");
        old.merge(fresh());
        assert_eq!(addresses(&old), "10.0.0.10 10.0.0.8 10.2.0.9");
        assert_eq!(old.release(|_, record| record.id == "a"), 1);
        old.merge(fresh());
        assert_eq!(addresses(&old), "10.0.0.10 10.2.0.9");
    }
}
