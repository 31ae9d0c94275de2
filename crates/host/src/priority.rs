//! Who has the processor first.

// A C interface cannot be called without it; every use says why it is sound.
#![allow(unsafe_code)]

/// How much less a thread asks for that is in no hurry: about a tenth of what others get, where they want it all.
const NICE: libc::c_int = 10;

/// Lets others have the processor before the calling thread. It makes no odds where there is nobody else.
pub fn give_way() {
    // SAFETY: it takes numbers only; 0 is the calling thread.
    let outcome = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
    if outcome != 0 {
        tracing::debug!(error = %std::io::Error::last_os_error(), "a thread keeps its priority");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_thread_alone_that_gives_way() {
        // SAFETY: as above.
        let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let before = nice();
        let within = std::thread::spawn(move || {
            give_way();
            nice()
        });
        assert_eq!(within.join().expect("the thread"), NICE.max(before));
        assert_eq!(nice(), before);
    }
}
