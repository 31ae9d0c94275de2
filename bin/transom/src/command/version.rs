//! Versions of this program and of the service it talks to.

use hcn::Hcn;
use serde_json::{Value, json};

use crate::cli::Global;
use crate::connect::connect;
use crate::exit::Failure;
use crate::output::Output;

/// Prints both. That nothing answers is worth knowing, but no failure.
pub(crate) fn run(global: &Global) -> Result<(), Failure> {
    let output = Output::new(global.output);
    let service = connect(global).ok().and_then(|hcn| service_version(hcn.as_ref()));
    if !output.is_for_people() {
        return output.value(&json!({"Transom": env!("CARGO_PKG_VERSION"), "Hns": service}));
    }
    output.line(&format!("transom {}", env!("CARGO_PKG_VERSION")))?;
    output.line(&format!("hns     {}", service.as_deref().unwrap_or("does not answer")))
}

fn service_version(hcn: &dyn Hcn) -> Option<String> {
    let version = hcn.call("GET", "/globals/version", "").ok()?;
    let number = |key: &str| version.get(key).and_then(Value::as_u64);
    Some(format!("{}.{}", number("Major")?, number("Minor")?))
}
