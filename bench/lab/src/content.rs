//! What is in a lab that is measured: nodes of both systems, and Deployments with a Service each.

use std::fmt::Write;

/// How many pods a Deployment has.
pub(crate) const REPLICAS: usize = 10;

/// Of so many nodes, and of so many Deployments, one is of Linux.
const LINUX_EVERY: usize = 4;

/// The text of a lab's file.
pub(crate) fn file(nodes: usize, pods: usize) -> String {
    let mut text = "apiVersion: transom/v1\nkind: Lab\nnodes:\n".to_owned();
    for number in 0..nodes {
        let system = system(number);
        // A text takes what is written to it.
        _ = writeln!(text, "  - {{name: {}{number}, os: {system}}}", &system[..3]);
    }
    for (number, first) in (0..pods).step_by(REPLICAS).enumerate() {
        text.push_str(&application(number, REPLICAS.min(pods - first)));
    }
    text
}

fn system(number: usize) -> &'static str {
    if number.is_multiple_of(LINUX_EVERY) { "linux" } else { "windows" }
}

/// A Deployment of the built-in server, with its Service.
fn application(number: usize, replicas: usize) -> String {
    let system = system(number);
    format!(
        "---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: app{number}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: app{number}}}}}
  template:
    metadata: {{labels: {{app: app{number}}}}}
    spec:
      nodeSelector: {{kubernetes.io/os: {system}}}
      containers:
        - name: server
          image: agnhost
          args: [netexec]
          readinessProbe: {{httpGet: {{path: /healthz, port: 8080}}, periodSeconds: 10}}
---
apiVersion: v1
kind: Service
metadata: {{name: app{number}}}
spec:
  ipFamilyPolicy: PreferDualStack
  selector: {{app: app{number}}}
  ports:
    - {{name: http, port: 80, targetPort: 8080}}
    - {{name: udp, port: 81, targetPort: 8081, protocol: UDP}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_were_asked_for() {
        let text = file(5, 23);
        assert_eq!(text.matches("os: linux").count() - text.matches("kubernetes.io/os: linux").count(), 2);
        let replicas = text.lines().filter_map(|line| line.trim().strip_prefix("replicas: ")?.parse::<usize>().ok());
        assert_eq!(replicas.collect::<Vec<_>>(), [10, 10, 3]);
    }
}
