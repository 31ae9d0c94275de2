//! Services as kube-proxy writes them for nftables: one map from address, protocol and port to a chain of the service, which throws dice
//! for a chain of a backend, which translates. New connections are also checked against a map of blocked ones.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use super::service::{Frontend, OTHERS, other_frontend};

/// How long a connection that is over is remembered, as by the switch.
const CLOSED_SECONDS: u32 = 10;

/// Loads the rules in a namespace: the frontends that lead to the server, and many others.
pub(crate) fn load(namespace: &str, frontends: &[Frontend], server: &str) -> Result<(), String> {
    let rules = rules(frontends, server);
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, "nft", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("nft cannot be run: {error}"))?;
    let mut input = child.stdin.take().ok_or("nft has no input")?;
    input.write_all(rules.as_bytes()).map_err(|error| format!("nft does not read: {error}"))?;
    drop(input);
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => forget_soon(namespace),
        false => Err(format!("nft refuses the rules: {}", String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default())),
    }
}

/// Has connections that are over forgotten as soon as the switch forgets them. The default of 120 s would fill the kernel's table within a few
/// rounds of short connections, and whatever has no place there is dropped.
fn forget_soon(namespace: &str) -> Result<(), String> {
    let set = format!("echo {CLOSED_SECONDS} > /proc/sys/net/netfilter/nf_conntrack_tcp_timeout_time_wait");
    let status = Command::new("ip").args(["netns", "exec", namespace, "sh", "-c", &set]).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        _ => Err("conntrack cannot be told how long to remember connections that are over".to_owned()),
    }
}

fn rules(frontends: &[Frontend], server: &str) -> String {
    let mut services: Vec<(Frontend, [String; 2])> =
        frontends.iter().map(|front| (*front, [server, server].map(|address| format!("{address}:{}", front.port)))).collect();
    services.extend((0..OTHERS).map(|number| (other_frontend(number), ["10.244.1.12:80", "10.244.1.11:80"].map(str::to_owned))));
    let mut text = String::from("table ip kube-proxy {\n");
    let mut elements = Vec::new();
    for (number, (front, backends)) in services.iter().enumerate() {
        elements.push(format!("{} . tcp . {} : goto service-{number}", front.address, front.port));
        for (backend, address) in backends.iter().enumerate() {
            let source = address.split(':').next().unwrap_or_default();
            _ = writeln!(text, "chain endpoint-{number}-{backend} {{");
            _ = writeln!(text, "ip saddr {source} jump mark-for-masquerade");
            _ = writeln!(text, "meta l4proto tcp dnat to {address}\n}}");
        }
        _ = writeln!(text, "chain service-{number} {{");
        _ = writeln!(text, "ip daddr {} tcp dport {} ip saddr != 10.244.0.0/16 jump mark-for-masquerade", front.address, front.port);
        _ = writeln!(text, "numgen random mod 2 vmap {{ 0 : goto endpoint-{number}-0, 1 : goto endpoint-{number}-1 }}\n}}");
    }
    _ = writeln!(
        text,
        "map service-ips {{ type ipv4_addr . inet_proto . inet_service : verdict; elements = {{ {} }} }}",
        elements.join(", ")
    );
    text.push_str(FRAME);
    text
}

/// What is there however many services there are.
const FRAME: &str = "\
map no-endpoint-services { type ipv4_addr . inet_proto . inet_service : verdict; }
map firewall-ips { type ipv4_addr . inet_proto . inet_service : verdict; }
chain mark-for-masquerade { meta mark set meta mark or 0x4000; }
chain services { ip daddr . meta l4proto . th dport vmap @service-ips; }
chain firewall-check { ct state new ip daddr . meta l4proto . th dport vmap @firewall-ips; }
chain endpoints-check { ip daddr . meta l4proto . th dport vmap @no-endpoint-services; }
chain filter-prerouting { type filter hook prerouting priority -110; ct state new jump firewall-check; }
chain filter-forward { type filter hook forward priority -110; ct state new jump endpoints-check; }
chain filter-output { type filter hook output priority -110; ct state new jump firewall-check; }
chain nat-prerouting { type nat hook prerouting priority dstnat; jump services; }
chain nat-output { type nat hook output priority -100; jump services; }
chain nat-postrouting {
type nat hook postrouting priority srcnat; policy accept;
meta mark & 0x4000 == 0 return
meta mark set meta mark xor 0x4000
masquerade fully-random
}
}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_has_a_chain_and_an_element() {
        let front = Frontend { address: [10, 96, 0, 10].into(), port: 5201 };
        let text = rules(&[front], "10.244.1.12");
        assert!(text.contains("10.96.0.10 . tcp . 5201 : goto service-0"));
        assert_eq!(text.matches("\nchain service-").count(), OTHERS + 1);
        assert_eq!(text.matches("chain endpoint-").count(), 2 * (OTHERS + 1));
    }
}
