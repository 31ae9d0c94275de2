//! Attach and detach requests (`/endpoints/{id}/attach`, `/endpoints/{id}/detach`).

open_enum! {
    /// What an endpoint is attached to. Clients send the name; the numbers are only the order of this list.
    pub enum SystemType as text {
        /// A container, by its id.
        Container = 0 "Container",
        /// A virtual machine, by the name of its NIC.
        VirtualMachine = 1 "VirtualMachine",
        /// The host: a vNIC with the endpoint's address in one of its compartments.
        Host = 2 "Host",
    }
}

document! {
    /// An attach or detach request.
    pub struct AttachRequest {
        "ContainerId" container_id: String,
        "SystemType" system_type: Option<SystemType>,
        "CompartmentId" compartment_id: u16,
        "VirtualNicName" virtual_nic_name: String,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn the_forms_of_clients() {
        let table = [
            (r#"{"SystemType":"Host","CompartmentId":1}"#, Some(SystemType::Host), "", 1),
            (
                r#"{"ContainerId":"c1","SystemType":"Container","CompartmentId":6,"VirtualNICName":""}"#,
                Some(SystemType::Container),
                "c1",
                6,
            ),
            (r#"{"SystemType":"virtualmachine"}"#, Some(SystemType::VirtualMachine), "", 0),
            ("{}", None, "", 0),
        ];
        for (text, system_type, container, compartment) in table {
            let request: AttachRequest = parse(text).unwrap();
            assert_eq!((request.system_type, request.container_id.as_str(), request.compartment_id), (system_type, container, compartment));
        }
    }
}
