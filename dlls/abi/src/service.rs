//! The way to hnsd.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hcn::client::{Address, Client};
use hcn::error::{Error, Result};

static CLIENT: Mutex<Option<Arc<Client>>> = Mutex::new(None);

/// Asks hnsd something.
///
/// The client is made at the first question and kept until hnsd cannot be reached or refuses us. After that the
/// surroundings are read anew: hnsd may be back on another port and with another token.
pub fn ask<T>(question: impl FnOnce(&Client) -> Result<T>) -> Result<T> {
    let client = client()?;
    let answer = question(&client);
    if let Err(Error::ServiceUnavailable(_) | Error::AccessDenied(_)) = &answer {
        forget(&client);
    }
    answer
}

fn client() -> Result<Arc<Client>> {
    let mut kept = lock();
    if let Some(client) = &*kept {
        return Ok(client.clone());
    }
    // A service that nobody can find is a service that does not run, whatever the reason.
    let address = Address::from_environment().map_err(|error| Error::ServiceUnavailable(Box::new(error.detail().clone())))?;
    Ok(kept.insert(Arc::new(Client::new(address))).clone())
}

fn forget(client: &Arc<Client>) {
    let mut kept = lock();
    if kept.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, client)) {
        *kept = None;
    }
}

fn lock() -> MutexGuard<'static, Option<Arc<Client>>> {
    CLIENT.lock().unwrap_or_else(PoisonError::into_inner)
}
