//! Management MAC addresses of accelerated networking (`/accelnet`).

document! {
    /// One management MAC address.
    pub struct MacEntry {
        "MacAddress" mac_address: String,
    }
}

document! {
    /// The list that `/accelnet` takes and answers; after a DELETE it is empty, but there.
    pub struct MacList {
        "MacAddressList" mac_address_list: Vec<MacEntry> => always,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parse, print};

    #[test]
    fn an_empty_list_is_printed() {
        assert_eq!(print(&MacList::default()), r#"{"MacAddressList":[]}"#);
        let list: MacList = parse(r#"{"macAddressList":[{"MacAddress":"00-15-5D-0A-B7-C6"}]}"#).unwrap();
        assert_eq!(list.mac_address_list[0].mac_address, "00-15-5D-0A-B7-C6");
    }
}
