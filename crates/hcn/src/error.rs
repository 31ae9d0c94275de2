//! Every failure of the service: one enum that knows its HRESULT, Microsoft's sentence for it, and what to do.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::document::Path;

/// The result of an HCN operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is special about one failure: the field, the cause, the remedy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// The field of the document the failure is about, as `Ipams[0].Subnets[0].IpAddressPrefix`.
    pub field: Option<String>,
    /// What went wrong, for people.
    pub cause: String,
    /// What to do about it, for people.
    pub remedy: Option<String>,
}

/// Starts the description of a failure with its cause.
pub fn detail(cause: impl Into<String>) -> Box<Detail> {
    Box::new(Detail { cause: cause.into(), ..Detail::default() })
}

impl Detail {
    /// Names the field by its path.
    pub fn at(mut self: Box<Self>, path: &Path<'_>) -> Box<Self> {
        self.field = Some(path.to_string()).filter(|path| !path.is_empty());
        self
    }

    /// Names the field.
    pub fn field(mut self: Box<Self>, field: impl Into<String>) -> Box<Self> {
        self.field = Some(field.into());
        self
    }

    /// Says what to do.
    pub fn remedy(mut self: Box<Self>, remedy: impl Into<String>) -> Box<Self> {
        self.remedy = Some(remedy.into());
        self
    }
}

macro_rules! errors {
    ($( $variant:ident = $code:literal $name:literal $sentence:literal ),* $(,)?) => {
        /// A failure of an HCN operation.
        ///
        /// A variant is one HRESULT; the [`Detail`] says what is special about this failure. Variants are called
        /// after Microsoft's names for the codes.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Error {
            $( #[doc = concat!("`", $name, "`: ", $sentence)] $variant(Box<Detail>), )*
            /// A code this version has no name for, such as one from a newer Windows.
            Other(u32, Box<Detail>),
        }

        impl Error {
            /// Name, code and sentence of every failure this version knows.
            pub const ALL: &'static [(&'static str, u32, &'static str)] = &[$(($name, $code, $sentence)),*];

            /// The failure with this code.
            pub fn from_hresult(hresult: u32, detail: Box<Detail>) -> Self {
                match hresult {
                    $( $code => Self::$variant(detail), )*
                    _ => Self::Other(hresult, detail),
                }
            }

            /// The HRESULT that a Windows program sees.
            pub fn hresult(&self) -> u32 {
                match self {
                    $( Self::$variant(_) => $code, )*
                    Self::Other(code, _) => *code,
                }
            }

            /// Microsoft's name of the code.
            pub fn name(&self) -> &'static str {
                match self {
                    $( Self::$variant(_) => $name, )*
                    Self::Other(..) => "unknown code",
                }
            }

            /// Microsoft's English sentence for the code. Some clients look for it in messages.
            pub fn sentence(&self) -> &'static str {
                match self {
                    $( Self::$variant(_) => $sentence, )*
                    Self::Other(..) => "An error occurred.",
                }
            }

            /// What is special about this failure.
            pub fn detail(&self) -> &Detail {
                match self {
                    $( Self::$variant(detail) => detail, )*
                    Self::Other(_, detail) => detail,
                }
            }

            fn detail_mut(&mut self) -> &mut Detail {
                match self {
                    $( Self::$variant(detail) => detail, )*
                    Self::Other(_, detail) => detail,
                }
            }
        }
    };
}

errors! {
    NetworkNotFound = 0x803B_0001 "HCN_E_NETWORK_NOT_FOUND" "The network was not found.",
    EndpointNotFound = 0x803B_0002 "HCN_E_ENDPOINT_NOT_FOUND" "The endpoint was not found.",
    LayerNotFound = 0x803B_0003 "HCN_E_LAYER_NOT_FOUND" "The network's underlying layer was not found.",
    SwitchNotFound = 0x803B_0004 "HCN_E_SWITCH_NOT_FOUND" "The virtual switch was not found.",
    SubnetNotFound = 0x803B_0005 "HCN_E_SUBNET_NOT_FOUND" "The network does not have a subnet for this endpoint.",
    AdapterNotFound = 0x803B_0006 "HCN_E_ADAPTER_NOT_FOUND" "An adapter was not found.",
    PortNotFound = 0x803B_0007 "HCN_E_PORT_NOT_FOUND" "The switch-port was not found.",
    PolicyNotFound = 0x803B_0008 "HCN_E_POLICY_NOT_FOUND" "An expected policy was not found.",
    VfpPortSettingNotFound = 0x803B_0009 "HCN_E_VFP_PORTSETTING_NOT_FOUND" "A required VFP port setting was not found.",
    InvalidNetwork = 0x803B_000A "HCN_E_INVALID_NETWORK" "The provided network configuration is invalid or missing parameters.",
    InvalidNetworkType = 0x803B_000B "HCN_E_INVALID_NETWORK_TYPE" "Invalid network type.",
    InvalidEndpoint = 0x803B_000C "HCN_E_INVALID_ENDPOINT" "The provided endpoint configuration is invalid or missing parameters.",
    InvalidPolicy = 0x803B_000D "HCN_E_INVALID_POLICY" "The provided policy configuration is invalid or missing parameters.",
    InvalidPolicyType = 0x803B_000E "HCN_E_INVALID_POLICY_TYPE" "Invalid policy type.",
    InvalidRemoteEndpointOperation = 0x803B_000F "HCN_E_INVALID_REMOTE_ENDPOINT_OPERATION" "This requested operation is invalid for a remote endpoint.",
    NetworkAlreadyExists = 0x803B_0010 "HCN_E_NETWORK_ALREADY_EXISTS" "A network with this name already exists.",
    LayerAlreadyExists = 0x803B_0011 "HCN_E_LAYER_ALREADY_EXISTS" "A network with this name already exists.",
    PolicyAlreadyExists = 0x803B_0012 "HCN_E_POLICY_ALREADY_EXISTS" "Policy information already exists on this object.",
    PortAlreadyExists = 0x803B_0013 "HCN_E_PORT_ALREADY_EXISTS" "The specified port already exists.",
    EndpointAlreadyAttached = 0x803B_0014 "HCN_E_ENDPOINT_ALREADY_ATTACHED" "This endpoint is already attached to the switch.",
    RequestUnsupported = 0x803B_0015 "HCN_E_REQUEST_UNSUPPORTED" "The specified request is unsupported.",
    MappingNotSupported = 0x803B_0016 "HCN_E_MAPPING_NOT_SUPPORTED" "Port mapping is not supported on the given network.",
    DegradedOperation = 0x803B_0017 "HCN_E_DEGRADED_OPERATION" "There was an operation attempted on a degraded object.",
    SharedSwitchModification = 0x803B_0018 "HCN_E_SHARED_SWITCH_MODIFICATION" "Cannot modify a switch shared by multiple networks.",
    GuidConversionFailure = 0x803B_0019 "HCN_E_GUID_CONVERSION_FAILURE" "Failed to interpret a parameter as a GUID.",
    RegKeyFailure = 0x803B_001A "HCN_E_REGKEY_FAILURE" "Failed to process registry key.",
    InvalidJson = 0x803B_001B "HCN_E_INVALID_JSON" "Invalid JSON document string.",
    InvalidJsonReference = 0x803B_001C "HCN_E_INVALID_JSON_REFERENCE" "The reference is invalid in the JSON document.",
    EndpointSharingDisabled = 0x803B_001D "HCN_E_ENDPOINT_SHARING_DISABLED" "Endpoint sharing is disabled.",
    InvalidIp = 0x803B_001E "HCN_E_INVALID_IP" "IP address is either invalid or not part of any configured subnet(s).",
    SwitchExtensionNotFound = 0x803B_001F "HCN_E_SWITCH_EXTENSION_NOT_FOUND" "The specified switch extension does not exist on this switch.",
    ManagerStopped = 0x803B_0020 "HCN_E_MANAGER_STOPPED" "Operation cannot be performed because service is stopping.",
    GuestModuleNotFound = 0x803B_0021 "GCN_E_MODULE_NOT_FOUND" "The module was not found in the guest.",
    GuestNoRequestHandlers = 0x803B_0022 "GCN_E_NO_REQUEST_HANDLERS" "No request handlers were found in the guest.",
    GuestRequestUnsupported = 0x803B_0023 "GCN_E_REQUEST_UNSUPPORTED" "The specified request is unsupported in the guest.",
    GuestRuntimeKeysFailed = 0x803B_0024 "GCN_E_RUNTIMEKEYS_FAILED" "Runtime keys failed in the guest.",
    GuestNetAdapterTimeout = 0x803B_0025 "GCN_E_NETADAPTER_TIMEOUT" "Waiting for the guest's network adapter timed out.",
    GuestNetAdapterNotFound = 0x803B_0026 "GCN_E_NETADAPTER_NOT_FOUND" "The network adapter was not found in the guest.",
    GuestNetCompartmentNotFound = 0x803B_0027 "GCN_E_NETCOMPARTMENT_NOT_FOUND" "The network compartment was not found in the guest.",
    GuestNetInterfaceNotFound = 0x803B_0028 "GCN_E_NETINTERFACE_NOT_FOUND" "The network interface was not found in the guest.",
    DefaultNamespaceExists = 0x803B_0029 "GCN_E_DEFAULTNAMESPACE_EXISTS" "The default namespace already exists.",
    IcsDisabled = 0x803B_002A "HCN_E_ICS_DISABLED" "Internet Connection Sharing (SharedAccess) is disabled and cannot be started.",
    EndpointNamespaceAlreadyExists = 0x803B_002B "HCN_E_ENDPOINT_NAMESPACE_ALREADY_EXISTS" "This endpoint is already in a namespace.",
    EntityHasReferences = 0x803B_002C "HCN_E_ENTITY_HAS_REFERENCES" "The entity still has references.",
    InvalidInternalPort = 0x803B_002D "HCN_E_INVALID_INTERNAL_PORT" "The internal port must be nonzero.",
    NamespaceAttachFailed = 0x803B_002E "HCN_E_NAMESPACE_ATTACH_FAILED" "The requested operation for attach namespace failed.",
    AddressInvalidOrReserved = 0x803B_002F "HCN_E_ADDR_INVALID_OR_RESERVED" "An address provided is invalid or reserved.",
    InvalidPrefix = 0x803B_0030 "HCN_E_INVALID_PREFIX" "The prefix provided is invalid.",
    ObjectUsedAfterUnload = 0x803B_0031 "HCN_E_OBJECT_USED_AFTER_UNLOAD" "A call was performed against an object that was torn down.",
    InvalidSubnet = 0x803B_0032 "HCN_E_INVALID_SUBNET" "The provided subnet configuration is invalid or missing parameters.",
    InvalidIpSubnet = 0x803B_0033 "HCN_E_INVALID_IP_SUBNET" "The provided IP subnet configuration is invalid or missing parameters.",
    EndpointNotAttached = 0x803B_0034 "HCN_E_ENDPOINT_NOT_ATTACHED" "The endpoint must be attached to complete the operation.",
    EndpointNotLocal = 0x803B_0035 "HCN_E_ENDPOINT_NOT_LOCAL" "The endpoint must be local to complete the operation.",
    InterfaceParametersAlreadyApplied = 0x803B_0036 "HCN_INTERFACEPARAMETERS_ALREADY_APPLIED" "The InterfaceParameters policy is already applied.",
    VfpNotAllowed = 0x803B_0037 "HCN_E_VFP_NOT_ALLOWED" "The network type requires VFP, which is not available.",
    NotFound = 0x8007_0490 "ERROR_NOT_FOUND" "Element not found.",
    InvalidParameter = 0x8007_0057 "E_INVALIDARG" "The parameter is incorrect.",
    ObjectAlreadyExists = 0x8007_1392 "ERROR_OBJECT_ALREADY_EXISTS" "The object already exists.",
    AlreadyExists = 0x8007_00B7 "ERROR_ALREADY_EXISTS" "Cannot create a file when that file already exists.",
    DuplicateName = 0x8007_0034 "ERROR_DUP_NAME" "You were not connected because a duplicate name exists on the network.",
    SharingViolation = 0x8007_0020 "ERROR_SHARING_VIOLATION" "The process cannot access the file because it is being used by another process.",
    ServiceUnavailable = 0x8007_06B5 "RPC_S_UNKNOWN_IF" "The interface is unknown.",
    AccessDenied = 0x8007_0005 "E_ACCESSDENIED" "Access is denied.",
    OutOfMemory = 0x8007_000E "E_OUTOFMEMORY" "Not enough memory resources are available to complete this operation.",
    DiskFull = 0x8007_0070 "ERROR_DISK_FULL" "There is not enough space on the disk.",
    WriteFault = 0x8007_001D "ERROR_WRITE_FAULT" "The system cannot write to the specified device.",
    TooLarge = 0x8007_00DF "ERROR_FILE_TOO_LARGE" "The file size exceeds the limit allowed and cannot be saved.",
    InvalidHandle = 0x8007_0006 "E_HANDLE" "The handle is invalid.",
    NotImplemented = 0x8000_4001 "E_NOTIMPL" "Not implemented",
    Unexpected = 0x8000_FFFF "E_UNEXPECTED" "Catastrophic failure",
    ComputeSystemNotFound = 0xC037_010E "HCS_E_SYSTEM_NOT_FOUND" "A virtual machine or container with the specified identifier does not exist.",
}

impl Error {
    /// Names the field, unless a more exact name is known already.
    pub fn at(mut self, path: &Path<'_>) -> Self {
        let field = path.to_string();
        if self.detail().field.is_none() && !field.is_empty() {
            self.detail_mut().field = Some(field);
        }
        self
    }

    /// Puts a place in front of the field's name: the failure was found inside that part of a larger document.
    pub fn within(mut self, place: &str) -> Self {
        let detail = self.detail_mut();
        detail.field = Some(match detail.field.take() {
            Some(field) => format!("{place}.{field}"),
            None => place.to_owned(),
        });
        self
    }

    /// The error record that HNS hands to Windows programs, as JSON.
    ///
    /// `Success`, `Error` and `ErrorCode` are Microsoft's (the blank after the sentence included); `Field`, `Cause`
    /// and `Remedy` are ours, and clients that do not know them ignore them.
    pub fn record(&self) -> Value {
        let mut record = Map::new();
        record.insert("Success".into(), json!(false));
        record.insert("Error".into(), json!(format!("{} ", self.sentence())));
        record.insert("ErrorCode".into(), json!(self.hresult()));
        let detail = self.detail();
        if let Some(field) = &detail.field {
            record.insert("Field".into(), json!(field));
        }
        if !detail.cause.is_empty() {
            record.insert("Cause".into(), json!(detail.cause));
        }
        if let Some(remedy) = &detail.remedy {
            record.insert("Remedy".into(), json!(remedy));
        }
        Value::Object(record)
    }

    /// Reads an error record back; `None` if the value is none.
    pub fn from_record(record: &Value) -> Option<Self> {
        if record.get("Success").and_then(Value::as_bool) != Some(false) {
            return None;
        }
        let text = |key: &str| record.get(key).and_then(Value::as_str).map(str::to_owned);
        let code = record.get("ErrorCode").and_then(Value::as_u64).and_then(|code| u32::try_from(code).ok());
        let cause = text("Cause").or_else(|| code.is_none().then(|| text("Error")).flatten()).unwrap_or_default();
        let detail = Box::new(Detail { field: text("Field"), cause, remedy: text("Remedy") });
        Some(Self::from_hresult(code.unwrap_or(0x8000_4005), detail))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = self.detail();
        if let Some(field) = &detail.field {
            write!(f, "{field}: ")?;
        }
        match detail.cause.as_str() {
            "" => f.write_str(self.sentence().trim_end_matches('.'))?,
            cause => f.write_str(cause)?,
        }
        write!(f, " ({}, 0x{:08X})", self.name(), self.hresult())?;
        if let Some(remedy) = &detail.remedy {
            write!(f, "; {remedy}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_is_microsofts_and_comes_back() {
        let error = Error::NotFound(detail("no namespace has this id").field("ID").remedy("list the namespaces"));
        let record = error.record();
        assert_eq!(record["Error"], "Element not found. ");
        assert_eq!(record["ErrorCode"], 2147943568u32);
        assert_eq!(Error::from_record(&record), Some(error.clone()));
        assert_eq!(error.to_string(), "ID: no namespace has this id (ERROR_NOT_FOUND, 0x80070490); list the namespaces");
    }

    #[test]
    fn unknown_codes_survive() {
        let record = json!({"Success": false, "Error": "Something new. ", "ErrorCode": 0x803B_0099u32});
        assert_eq!(Error::from_record(&record).map(|error| error.hresult()), Some(0x803B_0099));
    }

    #[test]
    fn every_code_is_listed_once() {
        let mut codes: Vec<u32> = Error::ALL.iter().map(|(_, code, _)| *code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Error::ALL.len());
    }
}
