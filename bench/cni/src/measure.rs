//! Pods one by one, and many at a time.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use crate::options::Options;
use crate::pod::Pod;
use crate::subject::Subject;

/// How many pods are made at a time.
pub(crate) const AT_A_TIME: usize = 50;

/// Milliseconds that one plugin took, pod by pod.
#[derive(Debug, Default)]
pub(crate) struct Times {
    pub(crate) add: Vec<f64>,
    pub(crate) del: Vec<f64>,
    /// From ADD's return to the first answer.
    pub(crate) answer: Vec<f64>,
}

impl Times {
    /// ADD and DEL of each pod together.
    pub(crate) fn both(&self) -> Vec<f64> {
        self.add.iter().zip(&self.del).map(|(add, del)| add + del).collect()
    }
}

/// What was measured of one plugin.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) alone: Times,
    pub(crate) together: Times,
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Measures everything.
pub(crate) fn measure(subjects: &[Subject], options: &Options) -> Result<Vec<Outcome>, String> {
    let mut outcomes: Vec<Outcome> = subjects.iter().map(|_| Outcome::default()).collect();
    for number in 0..options.pods {
        for (subject, outcome) in subjects.iter().zip(&mut outcomes) {
            one(subject, number, &mut outcome.alone)?;
        }
        if (number + 1) % 50 == 0 {
            println!("{} of {} pods one by one", number + 1, options.pods);
        }
    }
    for round in 0..options.rounds {
        for (subject, outcome) in subjects.iter().zip(&mut outcomes) {
            many(subject, round, &mut outcome.together)?;
        }
        println!("{} of {} rounds with {AT_A_TIME} pods at a time", round + 1, options.rounds);
    }
    Ok(outcomes)
}

fn one(subject: &Subject, number: usize, times: &mut Times) -> Result<(), String> {
    let pod = Pod::new(&format!("{}-{number}", subject.name))?;
    let client = pod.client()?;
    let (add, _) = subject.call("ADD", &pod.name)?;
    times.answer.push(milliseconds(client.ask(subject.server().ok_or("nobody answers")?)?));
    let (del, _) = subject.call("DEL", &pod.name)?;
    times.add.push(milliseconds(add));
    times.del.push(milliseconds(del));
    Ok(())
}

/// Many pods at a time: all their ADDs, and then all their DELs.
fn many(subject: &Subject, round: usize, times: &mut Times) -> Result<(), String> {
    let name = |number: usize| format!("{}-{round}-{number}", subject.name);
    let pods = (0..AT_A_TIME).map(|number| Pod::new(&name(number))).collect::<Result<Vec<_>, _>>()?;
    times.add.extend(at_once(subject, &pods, "ADD")?);
    times.del.extend(at_once(subject, &pods, "DEL")?);
    Ok(())
}

fn at_once(subject: &Subject, pods: &[Pod], command: &str) -> Result<Vec<f64>, String> {
    let barrier = Barrier::new(pods.len());
    let call = |pod: &Pod| {
        barrier.wait();
        subject.call(command, &pod.name).map(|(took, _)| milliseconds(took))
    };
    thread::scope(|scope| {
        let started: Vec<_> = pods.iter().map(|pod| scope.spawn(|| call(pod))).collect();
        started.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a thread failed".to_owned()))).collect()
    })
}
