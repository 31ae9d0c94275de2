//! The rules of the chains.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net};

use super::super::expression::{AddressFamily, Register, Side, Steps, Verdict, octets};
use super::super::set::number;
use super::Pool;
use super::layout::{WAYS, every_address};

/// The chain that every connection comes to.
pub(super) const SERVICES: &str = "services";
/// The chain of those whom nobody serves.
pub(super) const REFUSE: &str = "refuse";

/// Which backend a client had last.
pub(super) const AFFINITY: &str = "affinity";
/// The backends of each pool, by position.
pub(super) const TARGETS: &str = "targets";
/// The same by themselves, of pools with affinity.
pub(super) const MEMBERS: &str = "members";
/// Backends of this node, each twice.
pub(super) const HAIRPINS: &str = "hairpins";
/// Frontends that are not for everybody.
pub(super) const GUARDS: &str = "guards";

/// The bit of a packet's mark that says that its source is to be hidden: the one that Kubernetes' own proxy has for it.
const HIDDEN: u32 = 0x4000;

const TCP: u8 = 6;

/// Where the key of a lookup begins.
const KEY: Register = Register(0);
/// Where a pool and a backend of it are, one behind the other.
const MEMBER: Register = Register(5);
const TARGET: Register = Register(6);

pub(super) fn pool_chain(index: usize) -> String {
    format!("pool-{index}")
}

pub(super) fn hidden_chain(index: usize) -> String {
    format!("hidden-{index}")
}

pub(super) fn sources_chain(position: usize) -> String {
    format!("sources-{position}")
}

pub(super) fn enter() -> Steps {
    Steps::new().verdict(&Verdict::Jump(SERVICES.to_owned()))
}

/// Who asks. The node comes first: its own addresses may lie among those of pods.
pub(super) fn services(family: AddressFamily, pods: &[IpNet]) -> Vec<Steps> {
    let [(node, _), (for_pods, _), (others, _)] = WAYS;
    let go = |steps: Steps, chain: &str| steps.verdict(&Verdict::Goto(chain.to_owned()));
    let mut rules = vec![load_frontend(family).verdict_of(GUARDS, KEY), go(Steps::new().comes_from_here(), node)];
    rules.extend(pods.iter().map(|pods| go(Steps::new().within(Side::Source, *pods), for_pods)));
    rules.push(go(Steps::new(), others));
    rules
}

/// What is asked: an address of its own, or one of the node. What programs of the node say to each other by the loopback is nobody else's.
pub(super) fn frontends(family: AddressFamily, map: &str) -> Vec<Steps> {
    let of_node = Steps::new().destined_here().outside(Side::Destination, loopback(family));
    let of_node = of_node.load_bytes(KEY, &octets(every_address(family)));
    let of_node = of_node.load_destination_port(KEY.after(family.length()));
    vec![load_frontend(family).verdict_of(map, KEY), of_node.verdict_of(map, KEY)]
}

fn load_frontend(family: AddressFamily) -> Steps {
    let address = Steps::new().load_address(Side::Destination, family, KEY);
    address.load_destination_port(KEY.after(family.length()))
}

fn loopback(family: AddressFamily) -> IpNet {
    match family {
        AddressFamily::V4 => Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8).into(),
        AddressFamily::V6 => IpAddr::V6(Ipv6Addr::LOCALHOST).into(),
    }
}

/// Comes back for those of these sources, and ends for all others.
pub(super) fn sources(ranges: &[IpNet]) -> Vec<Steps> {
    let allowed = ranges.iter().map(|range| Steps::new().within(Side::Source, *range).verdict(&Verdict::Return));
    allowed.chain([Steps::new().verdict(&Verdict::Drop)]).collect()
}

pub(super) fn refuse(family: AddressFamily) -> Vec<Steps> {
    vec![Steps::new().transport(TCP).reset(), Steps::new().unreachable(family)]
}

pub(super) fn hide(index: usize) -> Steps {
    Steps::new().set_mark(HIDDEN).verdict(&Verdict::Goto(pool_chain(index)))
}

/// The backend that the client had, if it is still one; else one by chance. The last rule is for when nobody more can be remembered.
pub(super) fn choose(family: AddressFamily, pool: &Pool, own: [u8; 4]) -> Vec<Steps> {
    let bound = u32::try_from(pool.targets.len()).expect("there are fewer than four billion backends");
    let by_chance = Steps::new().load_bytes(KEY, &own).load_chance(KEY.after(4), bound).load_of(TARGETS, KEY, TARGET);
    let last = by_chance.clone().redirect_to(family, TARGET);
    let Some(affinity) = pool.affinity else { return vec![last] };
    let time_ms = u64::from(affinity.seconds) * 1000;
    let client = |steps: Steps| steps.load_bytes(KEY, &number(affinity.id)).load_address(Side::Source, family, KEY.after(4));
    let known = client(Steps::new()).load_of(AFFINITY, KEY, TARGET).load_bytes(MEMBER, &own).found_in(MEMBERS, MEMBER);
    let new = client(by_chance).forget(AFFINITY, KEY, TARGET);
    let remembered = |steps: Steps| steps.remember(AFFINITY, KEY, TARGET, time_ms).redirect_to(family, TARGET);
    vec![remembered(known), remembered(new), last]
}

/// Who is to be hidden; and a backend that reaches itself, which would answer itself if it saw its own address.
pub(super) fn leave(family: AddressFamily) -> Vec<Steps> {
    let itself = Steps::new().redirected().load_address(Side::Source, family, KEY);
    let itself = itself.load_address(Side::Destination, family, KEY.after(family.length())).found_in(HAIRPINS, KEY);
    vec![Steps::new().marked(HIDDEN).clear_mark(HIDDEN).masquerade(), itself.masquerade()]
}
