//! The sets, maps and chains of one table.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::super::attribute::Attributes;
use super::super::batch::{APPEND, Batch, CREATE, Family, Operation};
use super::super::expression::{AddressFamily, Steps, Verdict, octets};
use super::super::set::{Content, Elements, Part, Set, frontend, number, socket, userdata};
use super::super::table::Chain;
use super::rules::{self, AFFINITY, GUARDS, HAIRPINS, MEMBERS, TARGETS};
use super::{Frontend, Pool, Services, TABLE, Way};

const PREROUTING: u32 = 0;
const OUTPUT: u32 = 3;
const POSTROUTING: u32 = 4;

/// Where other programs expect destinations and sources to be changed (`dstnat` and `srcnat`).
const DESTINATION_PRIORITY: i32 = -100;
const SOURCE_PRIORITY: i32 = 100;

/// How many clients are remembered. One more is served, and may meet another backend each time.
const MOST_REMEMBERED: u32 = 1 << 20;

/// Where packets enter: the chain, its place and its priority.
const ENTRANCES: [(&str, u32, i32); 3] = [
    ("prerouting", PREROUTING, DESTINATION_PRIORITY),
    ("output", OUTPUT, DESTINATION_PRIORITY),
    ("postrouting", POSTROUTING, SOURCE_PRIORITY),
];

/// The maps of frontends: for whom, and their way.
type Ways = [(&'static str, fn(&Frontend) -> Way); 3];

/// Each is also the name of the chain that looks into it.
pub(super) const WAYS: Ways = [("for-node", |it| it.for_node), ("for-pods", |it| it.for_pods), ("for-others", |it| it.for_others)];

/// What one table does.
pub(super) struct Layout<'a> {
    family: AddressFamily,
    frontends: Vec<&'a Frontend>,
    /// The pools of this family, by their position among all.
    pools: BTreeMap<usize, &'a Pool>,
    /// The lists of those who may connect, by number.
    sources: Vec<&'a [IpNet]>,
    own_backends: Vec<IpAddr>,
    pods: Vec<IpNet>,
}

impl<'a> Layout<'a> {
    /// The table of a family.
    pub(super) fn of(services: &'a Services, family: AddressFamily) -> Self {
        let is_ours = |address: IpAddr| AddressFamily::of(address) == family;
        let frontends: Vec<&Frontend> = services.frontends.iter().filter(|it| is_ours(it.address)).collect();
        let pools = services.pools.iter().enumerate().filter(|(_, pool)| pool.targets.first().is_some_and(|it| is_ours(it.ip())));
        let mut sources: Vec<&[IpNet]> =
            frontends.iter().map(|it| it.source_ranges.as_slice()).filter(|ranges| !ranges.is_empty()).collect();
        sources.sort_unstable();
        sources.dedup();
        Self {
            family,
            pools: pools.collect(),
            sources,
            own_backends: services.own_backends.iter().copied().filter(|it| is_ours(*it)).collect(),
            pods: services.pods.iter().copied().filter(|it| is_ours(it.addr())).collect(),
            frontends,
        }
    }

    /// Whether it serves nobody.
    pub(super) fn is_empty(&self) -> bool {
        self.frontends.is_empty()
    }

    /// A batch that makes the table, in place of any of its name.
    pub(super) fn anew(&self, family: Family) -> Batch {
        let mut batch = Batch::new(family);
        let named = || Attributes::new().text(1, TABLE);
        // It can only be deleted if it is there, so it is made first, unless it is.
        batch.add(Operation::NewTable, CREATE, named());
        batch.add(Operation::DeleteTable, 0, named());
        batch.add(Operation::NewTable, CREATE, named());
        for (name, hook, priority) in ENTRANCES {
            let chain = Chain { name, kind: "nat", hook, priority, device: None, drops: false };
            batch.add(Operation::NewChain, CREATE, chain.attributes(TABLE));
        }
        self.fill(&mut batch);
        batch
    }

    /// A batch that changes a table with these chains.
    pub(super) fn update(&self, family: Family, there: &BTreeSet<String>) -> Batch {
        let mut batch = Batch::new(family);
        // Without a chain it means all rules of the table. What refers to chains goes before them.
        batch.add(Operation::DeleteRule, 0, Attributes::new().text(1, TABLE));
        for set in self.sets().iter().filter(|set| set.name != AFFINITY) {
            batch.add(Operation::DeleteSet, 0, Attributes::new().text(1, TABLE).text(2, set.name));
        }
        for name in there.iter().filter(|name| ENTRANCES.iter().all(|(entrance, ..)| name != entrance)) {
            batch.add(Operation::DeleteChain, 0, Attributes::new().text(1, TABLE).text(3, name));
        }
        self.fill(&mut batch);
        batch
    }

    /// The names of all chains.
    pub(super) fn chains(&self) -> BTreeSet<String> {
        self.rules().into_iter().map(|(chain, _)| chain).collect()
    }

    /// Adds everything but the table itself and the chains that packets enter.
    fn fill(&self, batch: &mut Batch) {
        let rules = self.rules();
        for (chain, _) in rules.iter().filter(|(chain, _)| ENTRANCES.iter().all(|(entrance, ..)| chain != entrance)) {
            batch.add(Operation::NewChain, CREATE, Attributes::new().text(1, TABLE).text(3, chain));
        }
        for (set, id) in self.sets().iter().zip(1..) {
            set.create(batch, TABLE, id);
        }
        self.add_elements(batch);
        for (chain, rules) in &rules {
            for (steps, comment) in rules {
                let rule = Attributes::new().text(1, TABLE).text(2, chain).nested(4, steps.attributes());
                let rule = if comment.is_empty() { rule } else { rule.bytes(7, &userdata(comment)) };
                batch.add(Operation::NewRule, CREATE | APPEND, rule);
            }
        }
    }

    fn sets(&self) -> [Set<'static>; 8] {
        let parts = Parts::of(self.family);
        let most = self.most_elements();
        let set = |name, key, content| Set { name, key, content, most };
        let [node, pods, others] = WAYS.map(|(name, _)| set(name, parts.frontend, Content::Verdicts));
        [
            Set { name: AFFINITY, key: parts.client, content: Content::Remembered(parts.target), most: MOST_REMEMBERED },
            set(TARGETS, &[Part::Number, Part::Number], Content::Values(parts.target)),
            set(MEMBERS, parts.member, Content::Keys),
            set(HAIRPINS, parts.pair, Content::Keys),
            set(GUARDS, parts.frontend, Content::Verdicts),
            node,
            pods,
            others,
        ]
    }

    /// How many elements any set has at most, but the one that rules fill. One, if none.
    fn most_elements(&self) -> u32 {
        let targets: usize = self.pools.values().map(|pool| pool.targets.len()).sum();
        let most = targets.max(self.frontends.len()).max(self.own_backends.len()).max(1);
        u32::try_from(most).expect("there are fewer than four billion backends")
    }

    fn add_elements(&self, batch: &mut Batch) {
        let (mut targets, mut members, mut hairpins, mut guards) = (Elements::new(), Elements::new(), Elements::new(), Elements::new());
        for (index, pool) in &self.pools {
            for (target, position) in pool.targets.iter().zip(0..) {
                targets.value(&[pool_number(*index), number(position)].concat(), &socket(*target));
                if pool.affinity.is_some() {
                    members.key(&[pool_number(*index).to_vec(), socket(*target)].concat());
                }
            }
        }
        self.own_backends.iter().for_each(|own| hairpins.key(&octets(*own).repeat(2)));
        for it in &self.frontends {
            if let Some(position) = self.sources.iter().position(|ranges| *ranges == it.source_ranges) {
                guards.verdict(&key(it), &Verdict::Jump(rules::sources_chain(position)), &it.name);
            }
        }
        let all = [(TARGETS, targets), (MEMBERS, members), (HAIRPINS, hairpins), (GUARDS, guards)];
        all.into_iter().for_each(|(set, elements)| elements.add(batch, TABLE, set));
        for (map, way) in WAYS {
            let mut elements = Elements::new();
            self.frontends.iter().for_each(|it| elements.verdict(&key(it), &self.verdict(way(it)), &it.name));
            elements.add(batch, TABLE, map);
        }
    }

    /// Where a way begins. A pool that is not there has nobody.
    fn verdict(&self, way: Way) -> Verdict {
        Verdict::Goto(match way {
            Way::Pool { index, is_hidden } if self.pools.contains_key(&index) => match is_hidden {
                true => rules::hidden_chain(index),
                false => rules::pool_chain(index),
            },
            _ => rules::REFUSE.to_owned(),
        })
    }

    /// All chains with their rules, and a comment for each rule.
    fn rules(&self) -> Vec<(String, Vec<(Steps, &'a str)>)> {
        let plain = |rules: Vec<Steps>| rules.into_iter().map(|rule| (rule, "")).collect::<Vec<_>>();
        let mut all = vec![
            ("prerouting".to_owned(), plain(vec![rules::enter()])),
            ("output".to_owned(), plain(vec![rules::enter()])),
            ("postrouting".to_owned(), plain(rules::leave(self.family))),
            (rules::SERVICES.to_owned(), plain(rules::services(self.family, &self.pods))),
            (rules::REFUSE.to_owned(), plain(rules::refuse(self.family))),
        ];
        all.extend(WAYS.map(|(map, _)| (map.to_owned(), plain(rules::frontends(self.family, map)))));
        all.extend(self.sources.iter().enumerate().map(|(at, ranges)| (rules::sources_chain(at), plain(rules::sources(ranges)))));
        for (index, pool) in &self.pools {
            let named = |rules: Vec<Steps>| rules.into_iter().map(|rule| (rule, pool.name.as_str())).collect::<Vec<_>>();
            all.push((rules::hidden_chain(*index), named(vec![rules::hide(*index)])));
            all.push((rules::pool_chain(*index), named(rules::choose(self.family, pool, pool_number(*index)))));
        }
        all
    }
}

fn key(it: &Frontend) -> Vec<u8> {
    frontend(it.address, it.protocol, it.port)
}

fn pool_number(index: usize) -> [u8; 4] {
    number(u32::try_from(index).expect("there are fewer than four billion pools"))
}

/// The address that stands for all of the node, in a family.
pub(super) fn every_address(family: AddressFamily) -> IpAddr {
    match family {
        AddressFamily::V4 => Ipv4Addr::UNSPECIFIED.into(),
        AddressFamily::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// What keys and values consist of, in a family.
struct Parts {
    frontend: &'static [Part],
    client: &'static [Part],
    target: &'static [Part],
    member: &'static [Part],
    pair: &'static [Part],
}

impl Parts {
    const V4: Self = {
        const ADDRESS: Part = Part::Address(AddressFamily::V4);
        Self {
            frontend: &[ADDRESS, Part::Protocol, Part::TransportPort],
            client: &[Part::Number, ADDRESS],
            target: &[ADDRESS, Part::TransportPort],
            member: &[Part::Number, ADDRESS, Part::TransportPort],
            pair: &[ADDRESS, ADDRESS],
        }
    };
    const V6: Self = {
        const ADDRESS: Part = Part::Address(AddressFamily::V6);
        Self {
            frontend: &[ADDRESS, Part::Protocol, Part::TransportPort],
            client: &[Part::Number, ADDRESS],
            target: &[ADDRESS, Part::TransportPort],
            member: &[Part::Number, ADDRESS, Part::TransportPort],
            pair: &[ADDRESS, ADDRESS],
        }
    };

    fn of(family: AddressFamily) -> Self {
        match family {
            AddressFamily::V4 => Self::V4,
            AddressFamily::V6 => Self::V6,
        }
    }
}
