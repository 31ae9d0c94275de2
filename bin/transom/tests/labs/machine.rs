//! Machines that lack something, and users who are not root: each machine is a mount namespace of its own, made so by root.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::harness::{Labs, SMALL, address_of, text};

/// A device for NICs that everybody may open, as most machines have it.
const TUN: &str = "mkdir -p \"$DIR/dev\" && mount -t tmpfs -o mode=755 tmpfs \"$DIR/dev\" && mknod -m 666 \"$DIR/dev/tun\" c 10 200 \
    && mount --bind \"$DIR/dev/tun\" /dev/net/tun";

/// Goes on as somebody who has nothing: no home, no directories of a desktop, no other variables.
const NOBODY: &str =
    "exec setpriv --reuid 65534 --regid 65534 --clear-groups env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=\"$DIR/tmp\"";

/// A machine of a test.
struct Machine {
    labs: Labs,
    directory: PathBuf,
    program: String,
}

impl Machine {
    /// One on which everybody finds the program; nothing where a test cannot make one, and why is said.
    fn new() -> Option<Self> {
        let labs = Labs::new()?;
        let is_there = |name: &str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
        if !nix::unistd::geteuid().is_root() || !is_there("unshare") || !is_there("setpriv") {
            println!("skipped: other machines are made by root, with unshare and setpriv");
            return None;
        }
        let directory = labs.home().parent().expect("a directory").to_owned();
        for (path, mode) in [(directory.clone(), 0o755), (directory.join("tmp"), 0o1777)] {
            fs::create_dir_all(&path).expect("a directory");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
        }
        // The one that was built may be where nobody but its builder can go.
        let program = directory.join("transom");
        fs::copy(env!("CARGO_BIN_EXE_transom"), &program).expect("a copy");
        Some(Self { labs, directory, program: program.display().to_string() })
    }

    /// Runs the command after a script has changed the machine.
    fn run(&self, script: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-ec", &format!("{script} \"$@\""), "sh", &self.program]).args(arguments);
        command.env("DIR", &self.directory).env("TRANSOM_LAB_DIR", self.labs.home()).env_remove("TRANSOM_LAB");
        command.output().expect("the command starts")
    }

    /// Runs the command, which has to fail, and answers what it says.
    fn refused(&self, script: &str, arguments: &[&str]) -> String {
        let output = self.run(script, arguments);
        assert!(!output.status.success(), "{arguments:?}: {}", text(&output.stdout));
        assert_eq!(self.labs.processes(), [""; 0]);
        text(&output.stderr)
    }
}

#[test]
fn a_machine_without_tun_is_told_of() {
    let Some(machine) = Machine::new() else { return };
    let told = machine.refused("mount -t tmpfs tmpfs /dev/net; exec", &["lab", "up"]);
    assert!(told.contains("could not open /dev/net/tun") && told.contains("modprobe tun"), "{told}");
    let closed = TUN.replace("-m 666", "-m 600");
    let told = machine.refused(&format!("{closed}; {NOBODY}"), &["lab", "up"]);
    assert!(told.contains("could not open /dev/net/tun") && told.contains("chmod 666 /dev/net/tun"), "{told}");
    assert!(!machine.labs.home().exists());
}

#[test]
fn a_machine_without_user_namespaces_is_told_of() {
    let Some(machine) = Machine::new() else { return };
    let none = "echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --ambient-caps -all --inh-caps -all \"$@\"";
    let script = format!("{TUN}; {NOBODY} unshare --user --map-current-user --keep-caps sh -ec '{none}' sh");
    let told = machine.refused(&script, &["lab", "up"]);
    assert!(told.contains("could not make namespaces") && told.contains("sysctl user.max_user_namespaces=10000"), "{told}");
    assert_eq!(fs::read_dir(machine.directory.join("tmp/transom-65534/lab")).map_or(0, Iterator::count), 0);
}

#[test]
fn a_full_disk_is_told_of_and_nothing_is_left() {
    let Some(machine) = Machine::new() else { return };
    // No room for anything, none for the number of the lab's process, and none for the kubeconfig.
    for pages in 1..=3 {
        let script = format!(
            "mkdir -p \"$TRANSOM_LAB_DIR\"; mount -t tmpfs -o size={}k tmpfs \"$TRANSOM_LAB_DIR\"; \
             head -c 4096 /dev/zero > \"$TRANSOM_LAB_DIR/full\"; trap 'ls \"$TRANSOM_LAB_DIR\"' EXIT;",
            4 * pages
        );
        let file = machine.labs.file("lab.yaml", SMALL);
        let output = machine.run(&script, &["lab", "up", &file]);
        let told = text(&output.stderr);
        assert!(!output.status.success() && told.contains("No space left on device") && told.contains("TRANSOM_LAB_DIR"), "{told}");
        assert_eq!(text(&output.stdout), "full\n", "what the lab had written is gone");
        assert_eq!(machine.labs.processes(), [""; 0]);
    }
}

#[test]
fn an_ordinary_user_has_labs_too() {
    let Some(machine) = Machine::new() else { return };
    let script = format!("{TUN}; {NOBODY}");
    let ok = |arguments: &[&str]| {
        let output = machine.run(&script, arguments);
        assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
        output.stdout
    };
    let file = machine.labs.file("lab.yaml", SMALL);
    ok(&["lab", "up", &file]);
    let status: serde_json::Value = serde_json::from_slice(&ok(&["lab", "status", "-o", "json"])).expect("JSON");
    let b = address_of(&status, "b");
    ok(&["lab", "exec", "a", "--", "bash", "-c", &format!("exec 3<>/dev/tcp/{b}/8080")]);
    assert!(text(&ok(&["lab", "flows"])).contains("pod -> pod (IP)"));
    assert!(text(&ok(&["lab", "logs", "a"])).contains("Started HTTP server"));
    assert!(text(&ok(&["container", "registry", "a"])).contains("REG_MULTI_SZ"));
    // A capture is a file of pcapng, which begins with a section header.
    let captured = ok(&["lab", "capture", "a", "--seconds", "1", "--write", "-"]);
    assert_eq!(captured.get(..4), Some(&[0x0a, 0x0d, 0x0d, 0x0a][..]));
    ok(&["lab", "down"]);
    let left = fs::read_dir(machine.directory.join("tmp/transom-65534/lab")).map_or(0, Iterator::count);
    assert_eq!(left, 0);
    let home = machine.directory.join("tmp").display().to_string();
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let environments = processes.filter_map(|entry| fs::read(entry.path().join("environ")).ok());
    assert_eq!(environments.filter(|environment| text(environment).contains(&home)).count(), 0, "processes are left");
}
