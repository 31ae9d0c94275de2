//! Building Kubernetes' programs.

use std::fs;
use std::path::Path;

use super::write;
use crate::shell;

/// What is built, and the package it is built from.
const PROGRAMS: [(&str, &str); 5] = [
    ("etcd", "go.etcd.io/etcd/server/v3"),
    ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    ("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
];

/// What is built for Windows.
const FOR_WINDOWS: [(&str, &str); 1] = [("kube-proxy.exe", "k8s.io/kubernetes/cmd/kube-proxy")];

/// Builds all programs for this system, unless they are there already, of the same versions.
pub(super) fn build(into: &Path) -> Result<(), String> {
    build_all(into, &PROGRAMS, &[])
}

/// Builds the programs for Windows, unless they are there already, of the same versions.
pub(super) fn build_for_windows(into: &Path) -> Result<(), String> {
    build_all(into, &FOR_WINDOWS, &[("GOOS", "windows"), ("GOARCH", "amd64")])
}

fn build_all(into: &Path, programs: &[(&str, &str)], environment: &[(&str, &str)]) -> Result<(), String> {
    let module = shell::root().join("interop").join("kubernetes");
    let read = |file: &str| fs::read_to_string(module.join(file)).map_err(|error| format!("cannot read {file}: {error}"));
    let versions = read("go.mod")? + &read("go.sum")?;
    let stamp = into.join("versions");
    let is_built = fs::read_to_string(&stamp).is_ok_and(|built| built == versions);
    if is_built && programs.iter().all(|(program, _)| into.join(program).is_file()) {
        return Ok(());
    }
    let release = release(&versions).ok_or("interop/kubernetes/go.mod requires no k8s.io/kubernetes")?;
    for (program, package) in programs {
        let mut go = shell::program("go");
        go.current_dir(&module)
            .env("CGO_ENABLED", "0")
            .envs(environment.iter().copied())
            .args(["build", "-ldflags", &flags(release), "-o"])
            .arg(into.join(program));
        shell::run(go.arg(package))?;
    }
    write(&stamp, &versions)
}

/// The required release: `v1.37.1`.
fn release(go_mod: &str) -> Option<&str> {
    let required = |line| str::trim(line).trim_start_matches("require ").strip_prefix("k8s.io/kubernetes ");
    go_mod.lines().find_map(required)?.split_whitespace().next()
}

/// What their own build tells the linker: which release it is. Without it, the programs say v0.0.0.
fn flags(release: &str) -> String {
    let mut numbers = release.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let set = |name: &str, value: &str| format!("-X k8s.io/component-base/version.{name}={value}");
    ["-s -w".to_owned(), set("gitVersion", release), set("gitMajor", major), set("gitMinor", minor)].join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_the_one_that_is_required() {
        assert_eq!(release("module x\n\nrequire k8s.io/kubernetes v1.37.1\n"), Some("v1.37.1"));
        assert_eq!(release("require (\n\tk8s.io/kubernetes v1.37.1 // indirect\n)\n"), Some("v1.37.1"));
        assert_eq!(release("require k8s.io/api v0.37.1\n"), None);
        assert!(flags("v1.37.1").ends_with("version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37"));
    }
}
