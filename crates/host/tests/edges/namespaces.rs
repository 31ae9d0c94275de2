//! Named namespaces: made, entered, adopted and deleted.

use std::path::Path;

use host::namespace;
use host::netlink::Netlink;
use host::sysctl::{Family, Key};

use crate::sandbox;

#[test]
fn made_entered_and_deleted() {
    sandbox::run("namespaces::made_entered_and_deleted", || {
        let directory = Path::new(sandbox::DIRECTORY);
        let first = namespace::create(directory, "first").unwrap();
        let second = namespace::create(directory, "second").unwrap();
        let here = namespace::current().unwrap();
        assert!(!first.is(&here).unwrap() && !first.is(&second).unwrap());
        assert!(first.run(|| namespace::current().unwrap().is(&first).unwrap()).unwrap());
        assert!(namespace::current().unwrap().is(&here).unwrap(), "the calling thread has moved");

        let adopted = namespace::create(directory, "first").unwrap();
        assert!(adopted.is(&first).unwrap(), "the name was given to another namespace");
        assert!(namespace::open(&directory.join("first")).unwrap().is(&first).unwrap());

        namespace::delete(&directory.join("first")).unwrap();
        namespace::delete(&directory.join("first")).unwrap();
        assert!(!directory.join("first").exists());
        // It is held, and so still there.
        first.run(Netlink::open).unwrap().unwrap().links().unwrap();
        namespace::delete(&directory.join("second")).unwrap();
    });
}

#[test]
fn a_leftover_file_is_no_obstacle() {
    sandbox::run("namespaces::a_leftover_file_is_no_obstacle", || {
        let directory = Path::new(sandbox::DIRECTORY);
        std::fs::create_dir_all(directory).unwrap();
        std::fs::write(directory.join("stale"), "").unwrap();
        assert!(!namespace::create(directory, "stale").unwrap().is(&namespace::current().unwrap()).unwrap());
    });
}

#[test]
fn errors_name_the_path_and_what_to_do() {
    sandbox::run("namespaces::errors_name_the_path_and_what_to_do", || {
        let missing = namespace::open(Path::new("/mnt/nowhere")).unwrap_err().to_string();
        assert!(missing.contains("/mnt/nowhere") && missing.contains("make it again"), "{missing}");
        let file = namespace::open(Path::new("/proc/version")).unwrap_err().to_string();
        assert!(file.contains("/proc/version is no network namespace"), "{file}");
        let other_kind = namespace::open(Path::new("/proc/self/ns/mnt")).unwrap();
        let error = other_kind.run(|| ()).unwrap_err().to_string();
        assert!(error.contains("could not enter"), "{error}");
        assert!(namespace::create(Path::new("/mnt"), "a/b").is_err());
    });
}

#[test]
fn settings_are_those_of_the_threads_namespace() {
    sandbox::run("namespaces::settings_are_those_of_the_threads_namespace", || {
        let (other, netlink) = sandbox::namespace("other");
        netlink.create_veth("eth0.100", "peer").unwrap();
        let forward = Key::global("ipv4.ip_forward");
        let before = forward.read().unwrap();
        let key = Key::interface(Family::V4, "eth0.100", "rp_filter");
        other
            .run(|| {
                forward.write("1").unwrap();
                key.write("2").unwrap();
                assert_eq!(key.set("2").unwrap(), None);
                assert_eq!(key.set("1").unwrap(), Some("2".into()));
                assert_eq!((forward.read().unwrap(), key.read().unwrap()), ("1".into(), "1".into()));
            })
            .unwrap();
        assert_eq!(forward.read().unwrap(), before);
        assert!(key.read().is_err());
        assert_eq!(netlink.within(|| key.read().unwrap()).unwrap(), "1");
    });
}
