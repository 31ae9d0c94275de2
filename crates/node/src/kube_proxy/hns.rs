//! Following what HNS says, on a thread of its own, since it blocks.

use std::sync::Arc;
use std::time::Duration;

use hcn::Hcn;
use hcn::event::{Change, Event};
use tokio::sync::mpsc;

/// How long to wait before asking an HNS again that does not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// What is heard of HNS.
#[derive(Debug)]
pub(super) enum News {
    /// It said something.
    Event(Event),
    /// It may have said something that nobody heard: the stream began, or began anew.
    Unknown,
    /// It says nothing any more.
    Gone(String),
}

/// Follows HNS for as long as somebody listens.
pub(super) fn follow(hcn: Arc<dyn Hcn>) -> mpsc::UnboundedReceiver<News> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let spawned = std::thread::Builder::new().name("hns-events".into()).spawn(move || {
        while !sender.is_closed() {
            let cause = listen(&*hcn, &sender);
            if sender.send(News::Gone(cause)).is_err() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    });
    if let Err(error) = spawned {
        tracing::error!(%error, "nobody listens to HNS");
    }
    receiver
}

/// Passes on what HNS says until it stops. Returns why it did.
fn listen(hcn: &dyn Hcn, sender: &mpsc::UnboundedSender<News>) -> String {
    let events = match hcn.events() {
        Ok(events) => events,
        Err(error) => return error.to_string(),
    };
    if sender.send(News::Unknown).is_err() {
        return String::new();
    }
    for event in events {
        let news = match event {
            Ok(event) if event.change == Change::Disconnected => return "HNS stopped".to_owned(),
            Ok(event) => News::Event(event),
            Err(error) => return error.to_string(),
        };
        if sender.send(news).is_err() {
            return String::new();
        }
    }
    "HNS hung up".to_owned()
}
