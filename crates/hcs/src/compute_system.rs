//! The document of a compute system: who owns it, and the container that it is.

use hcn::base::SchemaVersion;
use hcn::document::Any;
use hcn::{Guid, document, open_enum};

document! {
    /// A compute system.
    pub struct ComputeSystem {
        "Owner" owner: String,
        "SchemaVersion" schema_version: SchemaVersion,
        "HostingSystemId" hosting_system_id: String,
        "Container" container: Option<Container>,
        "VirtualMachine" virtual_machine: Any,
        "ShouldTerminateOnLastHandleClosed" should_terminate_on_last_handle_closed: bool,
    }
}

impl ComputeSystem {
    /// The HCN namespace of its container, if one is named.
    pub fn namespace(&self) -> Option<Guid> {
        self.container.as_ref().map(|container| container.networking.namespace).filter(|id| !id.is_nil())
    }

    /// The host name of its container; empty if the document has none.
    pub fn host_name(&self) -> &str {
        self.container.as_ref().map_or("", |container| &container.guest_os.host_name)
    }
}

document! {
    /// A container.
    pub struct Container {
        "GuestOs" guest_os: GuestOs,
        "Storage" storage: Any,
        "MappedDirectories" mapped_directories: Vec<MappedDirectory>,
        "Networking" networking: Networking,
        "RegistryChanges" registry_changes: RegistryChanges,
    }
}

document! {
    /// What the container calls itself.
    pub struct GuestOs {
        "HostName" host_name: String,
    }
}

document! {
    /// The network of a container.
    pub struct Networking {
        /// Whether a name without a dot is also asked as it is.
        "AllowUnqualifiedDnsQuery" allow_unqualified_dns_query: bool,
        /// Suffixes, with commas between them.
        "DnsSearchList" dns_search_list: String,
        /// A container whose network is shared.
        "NetworkSharedContainerName" network_shared_container_name: String,
        "Namespace" namespace: Guid,
        "NetworkAdapters" network_adapters: Vec<String>,
    }
}

impl Networking {
    /// The suffixes of the search list.
    pub fn search_list(&self) -> Vec<String> {
        self.dns_search_list.split(',').map(str::trim).filter(|suffix| !suffix.is_empty()).map(str::to_owned).collect()
    }
}

document! {
    /// A directory of the host that the container sees.
    pub struct MappedDirectory {
        "HostPath" host_path: String,
        "HostPathType" host_path_type: String,
        "ContainerPath" container_path: String,
        "ReadOnly" read_only: bool,
    }
}

document! {
    /// What is different in the container's registry.
    pub struct RegistryChanges {
        "AddValues" add_values: Vec<RegistryValue>,
        "DeleteKeys" delete_keys: Vec<RegistryKey>,
    }
}

open_enum! {
    /// Which part of the registry a key is in.
    pub enum RegistryHive as text {
        /// Services and settings of the system.
        System = 0 "System",
        /// Settings of programs.
        Software = 1 "Software",
        /// Accounts.
        Security = 2 "Security",
        /// Passwords of accounts.
        Sam = 3 "Sam",
    }
}

document! {
    /// A key, by its path below a hive.
    pub struct RegistryKey {
        "Hive" hive: RegistryHive => always,
        "Name" name: String,
        "Volatile" volatile: bool,
    }
}

open_enum! {
    /// The type of a value.
    pub enum RegistryValueType as text {
        /// No type.
        None = 0 "None",
        /// `REG_SZ`.
        String = 1 "String",
        /// `REG_EXPAND_SZ`.
        ExpandedString = 2 "ExpandedString",
        /// `REG_MULTI_SZ`.
        MultiString = 3 "MultiString",
        /// `REG_BINARY`.
        Binary = 4 "Binary",
        /// `REG_DWORD`.
        DWord = 5 "DWord",
        /// `REG_QWORD`.
        QWord = 6 "QWord",
        /// A number of one's own.
        CustomType = 7 "CustomType",
    }
}

document! {
    /// A value of a key.
    pub struct RegistryValue {
        "Key" key: RegistryKey,
        "Name" name: String,
        "Type" value_type: RegistryValueType => always,
        "StringValue" string_value: String,
        /// In Base64.
        "BinaryValue" binary_value: String,
        "DWordValue" dword_value: u32,
        "QWordValue" qword_value: u64,
        "CustomType" custom_type: u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_survive() {
        let text = r#"{"Owner":"containerd","SchemaVersion":{"Major":2,"Minor":1},"Container":{"GuestOs":{"HostName":"web-0"},"Networking":{"AllowUnqualifiedDnsQuery":true,"DnsSearchList":"a.local, b.local","Namespace":"5f0b1190-63be-4e0c-b974-bd0f55675a42"},"HvSocket":{"Config":{}}}}"#;
        let system: ComputeSystem = hcn::parse(text).unwrap();
        assert_eq!(hcn::print(&system), text);
        assert_eq!(system.host_name(), "web-0");
        let networking = system.container.unwrap().networking;
        assert_eq!(networking.search_list(), ["a.local", "b.local"]);
    }
}
