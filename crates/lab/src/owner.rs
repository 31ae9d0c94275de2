//! Whose objects are whose in a cluster that others use too: what the lab makes there has its mark, and is written down so that it can be
//! taken away again, also when the lab was killed.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The label of everything that a lab has made, and the taint of its Nodes.
pub(crate) const LABEL: &str = "transom/lab";

/// A lab in a cluster of others.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    /// The mark.
    pub(crate) id: String,
    /// Who schedules its pods.
    pub(crate) scheduler: String,
    /// Where is written down what was made.
    record: PathBuf,
}

/// What a record begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Heading {
    pub(crate) owner: String,
}

/// An object that was made, or was about to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Made {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

impl Made {
    /// For people.
    pub(crate) fn title(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind, self.name),
            None => format!("{} {}", self.kind, self.name),
        }
    }
}

impl Owner {
    /// Begins a record.
    pub(crate) fn begin(id: &str, lab: &str, record: PathBuf) -> io::Result<Self> {
        let owner = Self { id: id.to_owned(), scheduler: format!("transom-lab-{lab}"), record };
        owner.write(&Heading { owner: owner.id.clone() })?;
        Ok(owner)
    }

    fn write(&self, value: &impl Serialize) -> io::Result<()> {
        let mut file = File::options().create(true).append(true).open(&self.record)?;
        file.write_all(crate::control::line(value).as_bytes())
    }

    /// Marks an object as the lab's, and writes it down before it is made. Its pods are left to the lab's own scheduler.
    pub(crate) fn take(&self, object: &mut Value, is_namespaced: bool) -> io::Result<()> {
        object["metadata"]["labels"][LABEL] = json!(self.id);
        if let Some(pod) = pod_of(object) {
            pod["metadata"]["labels"][LABEL] = json!(self.id);
            let spec = &mut pod["spec"];
            for (key, value) in [("schedulerName", json!(self.scheduler)), ("automountServiceAccountToken", json!(false))] {
                if spec[key].is_null() {
                    spec[key] = value;
                }
            }
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let namespace = is_namespaced.then(|| metadata["namespace"].as_str().unwrap_or("default").to_owned());
        self.write(&Made {
            api_version: text(&object["apiVersion"]),
            kind: text(&object["kind"]),
            namespace,
            name: text(&metadata["name"]),
        })
    }

    /// What finds the lab's objects among all.
    pub(crate) fn selector(&self) -> String {
        format!("{LABEL}={}", self.id)
    }

    /// Whether labels are those of an object of the lab.
    pub(crate) fn has(&self, labels: Option<&std::collections::BTreeMap<String, String>>) -> bool {
        labels.and_then(|labels| labels.get(LABEL)).is_some_and(|id| *id == self.id)
    }
}

/// The part of an object that says how pods are.
fn pod_of(object: &mut Value) -> Option<&mut Value> {
    let path = match object["kind"].as_str()? {
        "Pod" => "",
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" => "/spec/template",
        "CronJob" => "/spec/jobTemplate/spec/template",
        _ => return None,
    };
    object.pointer_mut(path).filter(|pod| pod["spec"].is_object())
}

/// What a record says.
pub(crate) fn read(text: &str) -> Option<(Heading, Vec<Made>)> {
    let mut lines = text.lines();
    let heading = serde_json::from_str(lines.next()?).ok()?;
    // The last line of a lab that was killed may be half a line, of an object that was not made.
    Some((heading, lines.filter_map(|line| serde_json::from_str(line).ok()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_marked_and_written_down() {
        let record = std::env::temp_dir().join(format!("transom-owner-{}", std::process::id()));
        let owner = Owner::begin("it.123", "it", record.clone()).expect("a record");
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"schedulerName": "mine"}});
        owner.take(&mut pod, true).expect("it is written down");
        assert_eq!(pod["metadata"]["labels"][LABEL], "it.123");
        assert_eq!((&pod["spec"]["schedulerName"], &pod["spec"]["automountServiceAccountToken"]), (&json!("mine"), &json!(false)));
        let mut web =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": {"spec": {}}}});
        owner.take(&mut web, true).expect("it is written down");
        assert_eq!(web["spec"]["template"]["spec"]["schedulerName"], "transom-lab-it");
        assert_eq!(web["spec"]["template"]["metadata"]["labels"][LABEL], "it.123");
        owner.take(&mut json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}), false).expect("it is written down");
        let text = std::fs::read_to_string(&record).expect("a record") + "{\"apiV";
        std::fs::remove_file(&record).expect("it goes");
        let (heading, made) = read(&text).expect("what it says");
        assert_eq!(heading.owner, "it.123");
        assert_eq!(made.iter().map(Made::title).collect::<Vec<_>>(), ["Pod default/a", "Deployment default/web", "Namespace n"]);
        assert!(owner.has(Some(&[(LABEL.to_owned(), "it.123".to_owned())].into())) && !owner.has(None));
    }
}
