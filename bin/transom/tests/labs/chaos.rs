//! Up and down again and again, with somebody killing processes at random.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{Labs, SMALL, eventually, mounts};

/// How many rounds there are, for whoever wants more.
const ROUNDS: &str = "TRANSOM_LAB_ROUNDS";

/// Numbers that look random and follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

#[test]
fn up_and_down_with_random_kills_leaves_nothing() {
    let Some(labs) = Labs::new() else { return };
    let rounds = std::env::var(ROUNDS).ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_nanos() as u64 | 1);
    println!("note: {rounds} rounds, seed {seed}");
    let mut random = Random(seed);
    let before = mounts();
    let file = labs.file("lab.yaml", SMALL);
    for round in 0..rounds {
        let mut up = labs.command(&["lab", "up", &file]).spawn().expect("the command");
        let is_early = random.below(2) == 0;
        if is_early {
            std::thread::sleep(Duration::from_millis(random.below(1000) as u64));
        } else {
            up.wait().expect("it ends");
        }
        let victims: Vec<String> = labs.processes().into_iter().filter(|it| !it.contains(" lab up ")).collect();
        if let Some(victim) = victims.get(random.below(victims.len())) {
            let pid = victim.split(' ').next().and_then(|pid| pid.parse().ok()).expect("a number");
            // It may have ended by itself.
            _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        up.wait().expect("it ends");
        labs.run(&["lab", "down"]);
        eventually(&format!("round {round}: no process is left"), || labs.processes().is_empty());
        assert!(!labs.home().join("default").exists(), "round {round}");
        assert_eq!(mounts(), before, "round {round}");
    }
}
