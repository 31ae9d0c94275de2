use std::collections::HashMap;

use super::*;

fn backend(number: u32) -> Backend {
    Backend { address: Ip::v4(0x0a00_0000 + number), port: 8080 }
}

fn backends(count: u32) -> Backends {
    Backends::new((0..count).map(backend).collect())
}

fn without(all: &Backends, gone: Backend) -> Backends {
    Backends::new(all.list().iter().copied().filter(|backend| *backend != gone).collect())
}

#[test]
fn one_that_goes_moves_only_what_it_had() {
    // Around the border between found each time and found once, and far beyond it.
    for count in [2, 3, 10, 64, 65, 66, 200] {
        let before = backends(count);
        for gone in [0, count / 2, count - 1] {
            let after = without(&before, backend(gone));
            for connection in 0..5_000 {
                let (was, is) = (before.select(connection), after.select(connection));
                assert!(was == is || was == Some(backend(gone)), "{count} backends: {was:?} became {is:?}");
                assert_ne!(is, Some(backend(gone)));
            }
        }
    }
}

#[test]
fn all_get_their_part() {
    for (count, most) in [(2, 1.1), (10, 1.3), (64, 1.8), (300, 2.5)] {
        let backends = backends(count);
        let mut had: HashMap<Backend, u32> = HashMap::new();
        let connections = 200 * count;
        for connection in 0..connections {
            *had.entry(backends.select(u64::from(connection)).expect("there are backends")).or_default() += 1;
        }
        assert_eq!(had.len(), count as usize, "nobody is idle");
        let greatest = had.values().max().copied().unwrap_or(0);
        assert!(f64::from(greatest) < 200.0 * most, "{count} backends: {greatest}");
    }
}

#[test]
fn thousands_are_served() {
    let backends = backends(2_000);
    let had: std::collections::HashSet<Backend> = (0..100_000).filter_map(|connection| backends.select(connection)).collect();
    assert!(had.len() > 1_980, "{}", had.len());
}

#[test]
fn the_order_of_the_list_does_not_matter() {
    let mut list: Vec<Backend> = (0..100).map(backend).collect();
    let before = Backends::new(list.clone());
    list.reverse();
    list.push(backend(7));
    let after = Backends::new(list);
    assert_eq!(before, after);
    assert!((0..1000).all(|connection| before.select(connection) == after.select(connection)));
    assert_eq!(Backends::default().select(1), None);
}

#[test]
fn a_distribution_looks_at_what_it_says() {
    let id = FlowId { source: Ip::v4(1), destination: Ip::v4(2), source_port: 3, destination_port: 4, protocol: 6 };
    let other_source_port = FlowId { source_port: 5, ..id };
    let other_protocol = FlowId { protocol: 17, ..id };
    let other_vip = FlowId { destination: Ip::v4(9), ..id };
    let same = |distribution: Distribution, other: &FlowId| distribution.hash(&id, 7) == distribution.hash(other, 7);
    for (distribution, ports, protocols) in
        [(Distribution::FiveTuple, false, false), (Distribution::ThreeTuple, true, false), (Distribution::TwoTuple, true, true)]
    {
        assert_eq!(same(distribution, &other_source_port), ports);
        assert_eq!(same(distribution, &other_protocol), protocols);
        assert!(!same(distribution, &other_vip));
    }
}
