//! `ACL`: which packets pass. v1 also has single numbers where v2 only has lists.

use super::Flat;
use crate::document::Extra;
use crate::policy::acl::{AclSettings, ActionType, DirectionType, RuleType};
use crate::v1::homeless;

/// No protocol has this number; v1 clients write it for any.
const ANY_PROTOCOL: u16 = 256;
/// Port 0 is written for any, and reads as absent.
const ANY_PORT: u16 = 0;

document! {
    /// `ACL`. Where both a number and a list are given, the list counts.
    pub struct AclPolicy {
        "Type" policy_type: String => always,
        "Id" id: String,
        "Protocol" protocol: u16,
        "Protocols" protocols: String,
        "InternalPort" internal_port: u16,
        "Action" action: Option<ActionType>,
        "Direction" direction: Option<DirectionType>,
        "LocalAddresses" local_addresses: String,
        "RemoteAddresses" remote_addresses: String,
        "LocalPorts" local_ports: String,
        "LocalPort" local_port: u16,
        "RemotePorts" remote_ports: String,
        "RemotePort" remote_port: u16,
        "RuleType" rule_type: Option<RuleType>,
        "Priority" priority: u16,
        "ServiceName" service_name: String,
    }
}

impl Flat for AclPolicy {
    const V2_TYPE: &'static str = "ACL";
    type Settings = AclSettings;

    fn raise(self) -> AclSettings {
        let mut extra = self.extra;
        homeless::keep(&mut extra, "InternalPort", &self.internal_port);
        homeless::keep(&mut extra, "ServiceName", &self.service_name);
        AclSettings {
            protocols: raise_number(self.protocol, self.protocols, ANY_PROTOCOL, "Protocol", &mut extra),
            action: self.action,
            direction: self.direction,
            local_addresses: self.local_addresses,
            remote_addresses: self.remote_addresses,
            local_ports: raise_number(self.local_port, self.local_ports, ANY_PORT, "LocalPort", &mut extra),
            remote_ports: raise_number(self.remote_port, self.remote_ports, ANY_PORT, "RemotePort", &mut extra),
            rule_type: self.rule_type,
            priority: self.priority,
            id: self.id,
            extra,
        }
    }

    fn lower(settings: AclSettings) -> Self {
        let mut extra = settings.extra;
        Self {
            policy_type: "ACL".to_owned(),
            id: settings.id,
            protocol: lower_number(&settings.protocols, "Protocol", &mut extra),
            protocols: settings.protocols,
            internal_port: homeless::bring_back(&mut extra, "InternalPort"),
            action: settings.action,
            direction: settings.direction,
            local_addresses: settings.local_addresses,
            remote_addresses: settings.remote_addresses,
            local_port: lower_number(&settings.local_ports, "LocalPort", &mut extra),
            local_ports: settings.local_ports,
            remote_port: lower_number(&settings.remote_ports, "RemotePort", &mut extra),
            remote_ports: settings.remote_ports,
            rule_type: settings.rule_type,
            priority: settings.priority,
            service_name: homeless::bring_back(&mut extra, "ServiceName"),
            extra,
        }
    }
}

/// The list that a number and a list stand for. A number that the list does not say is kept under its v1 name.
fn raise_number(number: u16, list: String, any: u16, name: &str, extra: &mut Extra) -> String {
    let text = number.to_string();
    match number != 0 && list != text {
        true if list.is_empty() && number != any => text,
        true => {
            homeless::keep(extra, name, &number);
            list
        }
        false => list,
    }
}

/// The number beside a list: the one that was kept, else the list's only element.
fn lower_number(list: &str, name: &str, extra: &mut Extra) -> u16 {
    let kept = homeless::bring_back::<u16>(extra, name);
    let only = || list.parse().ok().filter(|number: &u16| number.to_string() == list);
    if kept != 0 { kept } else { only().unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::document::{Field, Path};

    #[test]
    fn numbers_and_lists() {
        let table = [
            (json!({"Protocol": 6, "LocalPort": 80}), json!({"Protocols": "6", "LocalPorts": "80"})),
            (json!({"Protocols": "6,17", "RemotePorts": "80,8080-8090"}), json!({"Protocols": "6,17", "RemotePorts": "80,8080-8090"})),
            (json!({"Protocol": 256}), json!({"Protocol": 256})),
            (json!({"LocalPort": 256}), json!({"LocalPorts": "256"})),
            (json!({"Protocol": 6, "Protocols": "17"}), json!({"Protocol": 6, "Protocols": "17"})),
            (json!({"Protocol": 6, "Protocols": "6"}), json!({"Protocols": "6"})),
            (json!({"InternalPort": 5, "ServiceName": "s"}), json!({"InternalPort": 5, "ServiceName": "s"})),
        ];
        for (v1, v2) in table {
            let flat = AclPolicy::read(v1.clone(), &Path::Root).unwrap();
            let settings = AclSettings::read(v2, &Path::Root).unwrap();
            assert_eq!(flat.raise(), settings, "{v1}");
            let back = AclPolicy::lower(settings.clone());
            for (key, value) in v1.as_object().unwrap() {
                assert_eq!(back.write()[key], *value, "{v1}");
            }
            assert_eq!(back.raise(), settings, "{v1}");
        }
    }
}
