//! Who of ours may use whom.
//!
//! A crate is a promise about what it does not know. The table is that promise; an edge that is not in it is worth a
//! conversation first, and then a change here with its reason.

use serde_json::Value;

use super::Finding;

const RULE: &str = "dependencies";

/// One row: a crate, what of ours it may depend on, and why.
struct Row {
    name: &'static str,
    may_use: &'static [&'static str],
    because: &'static str,
}

const TABLE: &[Row] = &[
    Row { name: "wire", may_use: &[], because: "bytes have no opinions" },
    Row { name: "vfp", may_use: &["wire"], because: "an engine, usable without Windows or Kubernetes" },
    Row { name: "hcn", may_use: &["wire"], because: "documents are shared by everybody" },
    Row { name: "journal", may_use: &[], because: "a file of changes does not know what they change" },
    Row { name: "hns", may_use: &["hcn", "journal", "vfp", "wire"], because: "the one place where policy becomes rules" },
    Row { name: "host", may_use: &["hcn", "wire"], because: "the operating system and the real service are both edges" },
    Row {
        name: "hcs",
        may_use: &["hcn", "host"],
        because: "a container is a document, what HNS says of its network, and what the system makes of both",
    },
    Row { name: "netexec", may_use: &[], because: "a server that is asked who called it knows nothing but its sockets" },
    Row { name: "cluster", may_use: &["journal"], because: "Kubernetes does not know about us" },
    Row { name: "cni", may_use: &["hcn", "host"], because: "a plugin sees documents and the system, never the switch" },
    Row { name: "flannel", may_use: &["hcn", "wire"], because: "turns what Nodes say into documents and routes; others watch and publish" },
    Row { name: "proxy", may_use: &["hcn"], because: "turns cluster facts into documents" },
    Row { name: "dns", may_use: &[], because: "turns cluster facts into names, and knows no network but that of its sockets" },
    Row {
        name: "node",
        may_use: &["cluster", "dns", "flannel", "hcn", "hns", "host", "proxy", "vfp", "wire"],
        because: "assembly, no logic",
    },
    Row { name: "abi", may_use: &["hcn"], because: "a DLL passes documents on and keeps none" },
    Row { name: "computenetwork", may_use: &["abi", "hcn"], because: "a DLL passes documents on and keeps none" },
    Row { name: "vmcompute", may_use: &["abi", "hcn"], because: "a DLL passes documents on and keeps none" },
    Row { name: "bcryptprimitives", may_use: &["abi"], because: "it stands in for one function of Windows" },
    Row {
        name: "lab",
        may_use: &["cluster", "dns", "hcn", "hcs", "host", "wire"],
        because: "starts the same programs as in production, and pods",
    },
    Row {
        name: "transom",
        may_use: &["cluster", "cni", "dns", "flannel", "hcn", "hcs", "hns", "host", "lab", "netexec", "node", "wire"],
        because: "parses arguments and wires",
    },
    Row { name: "api-bench", may_use: &["rig"], because: "measures from outside, as any client" },
    Row { name: "hns-bench", may_use: &["hcn", "rig"], because: "measures from outside, as a client" },
    Row { name: "wire-bench", may_use: &["wire"], because: "measures reading frames, and nothing else" },
    Row { name: "vfp-bench", may_use: &["vfp", "wire"], because: "measures the engine alone" },
    Row { name: "vswitch-bench", may_use: &["hcn", "host", "rig"], because: "measures from outside, in namespaces of its own" },
    Row { name: "proxy-bench", may_use: &["hcn", "rig"], because: "measures from outside, at the API server and at hnsd" },
    Row { name: "cni-bench", may_use: &["hcn", "host", "rig"], because: "measures plugins as a runtime starts them" },
    Row { name: "lab-bench", may_use: &["rig"], because: "measures labs by their command line" },
    Row { name: "rig", may_use: &["hcn", "host"], because: "starts what is measured, from outside" },
    Row { name: "xtask", may_use: &[], because: "runs the others, and so must build when they do not" },
];

/// What tests may use besides: a crate, what of ours, and why. It is not there in what is built.
const IN_TESTS: &[Row] = &[
    Row { name: "cni", may_use: &["hns"], because: "plugins are tested on a service in memory" },
    Row { name: "proxy", may_use: &["hns"], because: "what is planned is tried on a service in memory" },
];

/// Objects to every edge that is in neither table, and to every crate without a row.
pub(super) fn check(metadata: &Value) -> Vec<Finding> {
    let packages = packages(metadata);
    let ours: Vec<&str> = packages.iter().map(|package| package.name).collect();
    let mut findings = Vec::new();
    for package in &packages {
        let Some(row) = TABLE.iter().find(|row| row.name == package.name) else {
            let message = format!("{} has no row in the table of xtask/src/tidy/dependencies.rs; give it one, with a reason", package.name);
            findings.push(Finding::new(RULE, &package.manifest, 1, message));
            continue;
        };
        let in_tests = IN_TESTS.iter().find(|row| row.name == package.name).map_or(&[][..], |row| row.may_use);
        let is_for_tests = |used: &&str| in_tests.contains(used) && package.only_in_tests.contains(used);
        let forbidden = package.uses.iter().filter(|used| ours.contains(used) && !row.may_use.contains(used) && !is_for_tests(used));
        findings.extend(forbidden.map(|used| {
            let message = format!("{} must not depend on {used}: {}", row.name, row.because);
            Finding::new(RULE, &package.manifest, 1, message)
        }));
    }
    findings
}

/// The edges between our crates as text, one crate a line, those that use least first.
pub(super) fn graph(metadata: &Value) -> String {
    let packages = packages(metadata);
    let ours: Vec<&str> = packages.iter().map(|package| package.name).collect();
    let width = ours.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut lines: Vec<(usize, String)> = Vec::new();
    for package in &packages {
        let uses: Vec<&str> = package.uses.iter().copied().filter(|used| ours.contains(used)).collect();
        let line = match uses.is_empty() {
            true => format!("{}\n", package.name),
            false => format!("{:<width$} ─► {}\n", package.name, uses.join(", ")),
        };
        lines.push((depth(package.name, &packages, packages.len()), line));
    }
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

/// How many crates of ours stand below a crate, one on the other. `limit` ends the walk where tests make a circle.
fn depth(name: &str, packages: &[Package<'_>], limit: usize) -> usize {
    let Some(package) = packages.iter().find(|package| package.name == name && limit > 0) else {
        return 0;
    };
    let below = package.uses.iter().filter(|used| packages.iter().any(|other| other.name == **used));
    below.map(|used| depth(used, packages, limit - 1) + 1).max().unwrap_or(0)
}

/// A package of ours: its name, its manifest and what it depends on, tests included.
struct Package<'a> {
    name: &'a str,
    manifest: String,
    uses: Vec<&'a str>,
    only_in_tests: Vec<&'a str>,
}

fn packages(metadata: &Value) -> Vec<Package<'_>> {
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    packages.iter().filter_map(|package| read(package, root)).collect()
}

fn read<'a>(package: &'a Value, root: &str) -> Option<Package<'a>> {
    let dependencies = package["dependencies"].as_array()?;
    let mut uses: Vec<&str> = dependencies.iter().filter_map(|dependency| dependency["name"].as_str()).collect();
    uses.sort_unstable();
    uses.dedup();
    let is_built = |used: &&str| dependencies.iter().any(|dependency| dependency["name"] == **used && dependency["kind"] != "dev");
    let only_in_tests = uses.iter().copied().filter(|used| !is_built(used)).collect();
    let manifest = super::relative(package["manifest_path"].as_str()?, root);
    Some(Package { name: package["name"].as_str()?, manifest, uses, only_in_tests })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, uses: &[&str]) -> Value {
        let dependencies: Vec<Value> = uses.iter().map(|name| json!({"name": name})).collect();
        json!({"name": name, "manifest_path": format!("/r/crates/{name}/Cargo.toml"), "dependencies": dependencies})
    }

    fn workspace(packages: &[Value]) -> Value {
        json!({"workspace_root": "/r", "packages": packages})
    }

    #[test]
    fn what_is_for_tests_must_not_be_built() {
        let with_kinds = |kinds: &[Value]| {
            let mut cni = package("cni", &[]);
            cni["dependencies"] = kinds.iter().map(|kind| json!({"name": "hns", "kind": kind})).collect();
            check(&workspace(&[cni, package("hns", &[])])).len()
        };
        assert_eq!(with_kinds(&[json!("dev")]), 0);
        assert_eq!(with_kinds(&[json!(null)]), 1);
        assert_eq!(with_kinds(&[json!("dev"), json!(null)]), 1);
    }

    #[test]
    fn edges_outside_the_table_are_found() {
        let metadata = workspace(&[package("wire", &["hcn"]), package("hcn", &["wire", "serde"]), package("new", &[])]);
        let found: Vec<String> = check(&metadata).iter().map(Finding::to_string).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], "crates/wire/Cargo.toml:1: dependencies: wire must not depend on hcn: bytes have no opinions");
        assert!(found[1].contains("new has no row"), "{}", found[1]);
    }

    #[test]
    fn the_graph_goes_from_the_bottom_up() {
        let metadata = workspace(&[package("hns", &["hcn", "redb", "wire"]), package("hcn", &["wire"]), package("wire", &[])]);
        assert_eq!(graph(&metadata), "wire\nhcn  ─► wire\nhns  ─► hcn, wire\n");
    }
}
