//! What can be asked about compute systems, and the answers.

use hcn::{document, open_enum};

document! {
    /// Which systems are meant. What is empty leaves all.
    pub struct SystemQuery {
        "Ids" | "IDs" ids: Vec<String>,
        "Names" names: Vec<String>,
        "Types" types: Vec<String>,
        "Owners" owners: Vec<String>,
    }
}

impl SystemQuery {
    /// Whether a system is meant.
    pub fn includes(&self, properties: &Properties) -> bool {
        let named = |list: &[String], value: &str| list.is_empty() || list.iter().any(|wanted| wanted.eq_ignore_ascii_case(value));
        named(&self.ids, &properties.id)
            && named(&self.names, &properties.name)
            && named(&self.types, &properties.system_type)
            && named(&self.owners, &properties.owner)
    }
}

open_enum! {
    /// What is asked about a system.
    pub enum PropertyType as text {
        /// What is always told.
        Basic = 0 "Basic",
        /// Its processes.
        ProcessList = 1 "ProcessList",
    }
}

document! {
    /// What is asked about a system.
    pub struct PropertyQuery {
        "PropertyTypes" property_types: Vec<PropertyType>,
    }
}

document! {
    /// A process that runs.
    pub struct ProcessDetails {
        "ProcessId" process_id: u32,
        "ImageName" image_name: String,
    }
}

document! {
    /// A compute system as HCS tells of it.
    pub struct Properties {
        "Id" id: String,
        "SystemType" system_type: String,
        "RuntimeOsType" runtime_os_type: String,
        "Name" name: String,
        "Owner" owner: String,
        "State" state: String,
        "Stopped" stopped: bool,
        "ExitType" exit_type: String,
        "ProcessList" process_list: Vec<ProcessDetails>,
        "TerminateOnLastHandleClosed" terminate_on_last_handle_closed: bool,
    }
}

open_enum! {
    /// How a system came to its end.
    pub enum ExitType as text {
        /// It has not.
        None = 0 "None",
        /// Its processes ended when they were asked to.
        GracefulExit = 1 "GracefulExit",
        /// It was ended.
        ForcedExit = 2 "ForcedExit",
        /// By itself.
        UnexpectedExit = 3 "UnexpectedExit",
    }
}
