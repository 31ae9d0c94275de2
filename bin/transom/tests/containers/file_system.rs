//! What a container sees of the file system.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use host::container::{Mount, MountTable, Spec};
use nix::mount::MsFlags;

use crate::sandbox::{self, DIRECTORY, World, shell, spec};

fn mount(source: &str, target: &str) -> Mount {
    Mount { source: Some(source.into()), target: target.into(), read_only: false }
}

/// A file with content, in the sandbox.
fn file(name: &str, content: &str) -> String {
    let path = Path::new(DIRECTORY).join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn files_are_laid_over_the_machines_own() {
    sandbox::run("file_system::files_are_laid_over_the_machines_own", || {
        let world = World::new();
        let before = (fs::read("/etc/hosts").ok(), mounts());
        let resolv_conf = file("resolv.conf", "nameserver 10.96.0.10\n");
        let hosts = file("hosts", "10.1.2.3 web-0\n");
        let missing = file("missing", "made in memory\n");
        let mounts_of_pod = vec![
            mount(&resolv_conf, "/etc/resolv.conf"),
            mount(&hosts, "/etc/hosts"),
            mount(&missing, "/etc/transom-was-not-here/deep/file"),
            Mount { target: "/tmp".into(), ..Mount::default() },
        ];
        let container = world.create(&Spec { mounts: mounts_of_pod, ..spec() });
        let see = |line: &str| shell(&container, line).1;
        assert_eq!(see("cat /etc/resolv.conf"), "nameserver 10.96.0.10\n");
        assert_eq!(see("cat /etc/hosts"), "10.1.2.3 web-0\n");
        assert_eq!(see("cat /etc/transom-was-not-here/deep/file"), "made in memory\n");
        assert_eq!(see("test -s /etc/passwd && echo there"), "there\n");
        assert_eq!(see("ls /tmp | wc -l; touch /tmp/x && echo writable"), "0\nwritable\n");
        // A file that is written again is seen again.
        fs::write(&resolv_conf, "nameserver 10.96.0.11\n").unwrap();
        assert_eq!(see("cat /etc/resolv.conf"), "nameserver 10.96.0.11\n");
        drop(container);
        assert!(!Path::new("/etc/transom-was-not-here").exists());
        assert_eq!((fs::read("/etc/hosts").ok(), self::mounts()), before);
    });
}

#[test]
fn only_the_scratch_directory_can_be_written_to() {
    sandbox::run("file_system::only_the_scratch_directory_can_be_written_to", || {
        let world = World::new();
        let scratch = Path::new(DIRECTORY).join("scratch");
        fs::create_dir(&scratch).unwrap();
        let container = world.create(&Spec { scratch: Some(scratch.clone()), ..spec() });
        println!("\nnote: {:?}", container.notes());
        let (code, text) = shell(&container, "echo $TMPDIR; echo x > $TMPDIR/file && ! touch /mnt/outside");
        assert_eq!(code, 0, "{text}");
        assert!(text.starts_with("/mnt/scratch\n"), "{text}");
        assert_eq!(fs::read_to_string(scratch.join("file")).unwrap(), "x\n");
        assert!(!Path::new("/mnt/outside").exists());
    });
}

#[test]
fn new_names_can_stand_in_the_root_directory() {
    sandbox::run("file_system::new_names_can_stand_in_the_root_directory", || {
        let world = World::new();
        let program = mount(env!("CARGO_BIN_EXE_transom"), "/agnhost");
        let memory = Mount { target: "/data/deep".into(), ..Mount::default() };
        let read_only = Mount { read_only: true, ..mount(&file("config", "value"), "/etc/transom-config/key") };
        let container = world.create(&Spec { mounts: vec![memory, program, read_only], ..spec() });
        let see = |line: &str| shell(&container, line);
        assert_eq!(see("echo x > /data/deep/file && cat /data/deep/file"), (0, "x\n".into()));
        assert_eq!(see("cat /etc/transom-config/key"), (0, "value".into()));
        assert_ne!(see("echo x > /etc/transom-config/key").0, 0);
        assert_eq!(see("test -x /bin/sh && test -d /usr && test -r /proc/self/status && echo all").1, "all\n");
        let (code, text) = see("/agnhost connect 127.0.0.1:9");
        assert_eq!(code, 1);
        assert!(text.starts_with("OTHER") || text.starts_with("REFUSED"), "{text}");
        assert!(!Path::new("/data").exists() && !Path::new("/agnhost").exists());
    });
}

#[test]
fn other_network_namespaces_are_not_seen() {
    sandbox::run("file_system::other_network_namespaces_are_not_seen", || {
        let world = World::new();
        for number in 0..20 {
            host::namespace::create(&Path::new(DIRECTORY).join("netns"), &format!("pod-{number}")).unwrap();
        }
        let container = world.create(&Spec { hidden: vec![Path::new(DIRECTORY).join("netns")], ..spec() });
        assert_eq!(shell(&container, "grep -c nsfs /proc/self/mounts").1, "0\n");
        assert!(shell(&container, "ls /proc | grep -c '^[0-9]'").1.trim().parse::<u32>().unwrap() <= 4);
    });
}

#[test]
fn containers_of_a_mount_table_see_no_later_mount() {
    sandbox::run("file_system::containers_of_a_mount_table_see_no_later_mount", || {
        let world = World::new();
        let table = Arc::new(MountTable::now().unwrap());
        let later = Path::new(DIRECTORY).join("later");
        fs::create_dir(&later).unwrap();
        nix::mount::mount(Some("tmpfs"), &later, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
        file("later/inside", "on the mount\n");
        let path = file("beside", "a later file\n");
        let see = |world: &World| shell(&world.create(&spec()), &format!("ls {}; cat {path}", later.display())).1;
        assert_eq!(see(&world), "inside\na later file\n");
        let world = World { supervisor: world.supervisor.from_table(Some(table)), ..world };
        assert_eq!(see(&world), "a later file\n");
    });
}

#[test]
fn a_mount_that_cannot_be_made_is_told() {
    sandbox::run("file_system::a_mount_that_cannot_be_made_is_told", || {
        let world = World::new();
        let error = world.try_create(&Spec { mounts: vec![mount("/no/such/file", "/etc/hosts")], ..spec() }).unwrap_err();
        assert!(error.to_string().contains("/no/such/file"), "{error}");
    });
}

/// How many mounts there are.
fn mounts() -> usize {
    fs::read_to_string("/proc/self/mounts").unwrap().lines().count()
}
