//! What a container runs: there are no images in a lab, so it is the command of the manifest, or a server of our own.

use host::container::SELF;
use k8s_openapi::api::core::v1::Container;

/// Where the built-in server listens where nobody says.
const HTTP_PORT: u16 = 8080;
const UDP_PORT: u16 = 8081;

/// The arguments of a container's process, the program first.
pub(super) fn command(container: &Container) -> Vec<String> {
    let command = container.command.clone().unwrap_or_default();
    let args = container.args.clone().unwrap_or_default();
    match command.split_first() {
        // People's manifests call the program of the image by its path.
        Some((program, rest)) if base(program) == "agnhost" => own(&[rest, &args].concat()),
        Some(_) => [command, args].concat(),
        None => match base(container.image.as_deref().unwrap_or_default()) {
            "agnhost" => own(&args),
            "pause" => own(&["pause".to_owned()]),
            _ => own(&server(container)),
        },
    }
}

/// Where a built-in server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ports {
    /// The port of HTTP.
    pub(crate) http: u16,
    /// The port of UDP, if it has one.
    pub(crate) udp: Option<u16>,
}

/// Where a container's server answers, if it is the built-in one.
pub(crate) fn server_ports(container: &Container) -> Option<Ports> {
    let command = command(container);
    let [_, _, verb, options @ ..] = command.as_slice() else { return None };
    let is_own = command[..2] == [SELF, "agnhost"] && verb == "netexec";
    // A value stands in the same word, or in the next.
    let value = |name: &str| {
        let at =
            options.iter().position(|option| option.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')))?;
        options[at].split_once('=').map(|(_, value)| value).or_else(|| options.get(at + 1).map(String::as_str))
    };
    let port = |name: &str, default: u16| value(name).map_or(Some(default), |text| text.parse().ok());
    is_own.then_some(())?;
    Some(Ports { http: port("--http-port", HTTP_PORT)?, udp: port("--udp-port", UDP_PORT) })
}

/// What runs instead of an image that the lab does not know; nothing where it runs what the manifest says.
pub(super) fn stand_in(container: &Container) -> Option<String> {
    let image = container.image.as_deref().unwrap_or_default();
    let is_known = container.command.as_ref().is_some_and(|command| !command.is_empty()) || matches!(base(image), "agnhost" | "pause");
    (!is_known).then(|| server(container).join(" "))
}

/// The last part of a path or of an image's name, without its tag.
fn base(name: &str) -> &str {
    let last = name.rsplit('/').next().unwrap_or(name);
    last.split([':', '@']).next().unwrap_or(last)
}

/// The program that stands in for agnhost: a part of ours.
fn own(arguments: &[String]) -> Vec<String> {
    let mut command = vec![SELF.to_owned(), "agnhost".to_owned()];
    command.extend_from_slice(if arguments.is_empty() { &[] } else { arguments });
    if arguments.is_empty() {
        command.push("pause".to_owned());
    }
    command
}

/// The server that stands in for any other image: at the first port that the container says it has.
fn server(container: &Container) -> Vec<String> {
    let ports = container.ports.as_deref().unwrap_or_default();
    let of =
        |protocol: &str| ports.iter().find(|port| port.protocol.as_deref().unwrap_or("TCP") == protocol).map(|port| port.container_port);
    let mut arguments = vec!["netexec".to_owned()];
    arguments.extend(of("TCP").map(|port| format!("--http-port={port}")));
    arguments.extend(of("UDP").map(|port| format!("--udp-port={port}")));
    arguments
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn commands_of_manifests() {
        let table = [
            (json!({"image": "example.com/e2e/agnhost:2.53", "args": ["netexec", "--http-port=80"]}), "agnhost netexec --http-port=80"),
            (json!({"image": "example.com/e2e/agnhost:2.53"}), "agnhost pause"),
            (json!({"image": "agnhost@sha256:ab", "command": ["/agnhost", "pause"]}), "agnhost pause"),
            (json!({"image": "example.com/pause:3.9"}), "agnhost pause"),
            (json!({"image": "nginx", "ports": [{"containerPort": 80}]}), "agnhost netexec --http-port=80"),
            (json!({"image": "dns", "ports": [{"containerPort": 53, "protocol": "UDP"}]}), "agnhost netexec --udp-port=53"),
            (json!({"image": "nginx"}), "agnhost netexec"),
        ];
        for (mut container, expected) in table {
            container["name"] = json!("it");
            let container: Container = serde_json::from_value(container).unwrap();
            assert_eq!(command(&container), [&[SELF], expected.split(' ').collect::<Vec<_>>().as_slice()].concat());
        }
        let container: Container = serde_json::from_value(json!({"name": "it", "command": ["sh", "-c"], "args": ["exit 3"]})).unwrap();
        assert_eq!(command(&container), ["sh", "-c", "exit 3"]);
    }

    #[test]
    fn ports_of_servers() {
        let ports = |http, udp| Some(Ports { http, udp });
        let table = [
            (json!({"image": "agnhost", "args": ["netexec"]}), ports(8080, Some(8081))),
            (json!({"image": "agnhost", "args": ["netexec", "--udp-port", "-1", "--http-port=80"]}), ports(80, None)),
            (json!({"image": "nginx", "ports": [{"containerPort": 81}]}), ports(81, Some(8081))),
            (json!({"image": "agnhost"}), None),
            (json!({"image": "agnhost", "args": ["netexec", "--http-port=http"]}), None),
            (json!({"command": ["sleep", "1", "netexec"]}), None),
        ];
        for (mut container, expected) in table {
            container["name"] = json!("it");
            let container: Container = serde_json::from_value(container).unwrap();
            assert_eq!(server_ports(&container), expected, "{container:?}");
        }
    }
}
