//! Fields that one of the two views has no home for: they travel in the other's `extra` and come back.

use crate::document::{Extra, Field, Path, take};

/// Puts a v1 field among the unknown fields of a v2 document, under its v1 name.
pub(super) fn keep(extra: &mut Extra, name: &str, field: &impl Field) {
    if !field.is_absent() {
        extra.insert(name.to_owned(), field.write());
    }
}

/// Takes a v1 field back out. What cannot be read as the field stays where it is.
pub(super) fn bring_back<T: Field>(extra: &mut Extra, name: &str) -> T {
    let Some(value) = take(extra, &[name]) else {
        return T::default();
    };
    T::read(value.clone(), &Path::Root).unwrap_or_else(|_| {
        extra.insert(name.to_owned(), value);
        T::default()
    })
}

/// Unknown fields without those whose names mean something in the other view: there they would be taken for it.
pub(super) fn unknown_to(extra: Extra, known: &[&str]) -> Extra {
    extra.into_iter().filter(|(key, _)| !known.iter().any(|name| name.eq_ignore_ascii_case(key))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kept_fields_come_back() {
        let mut extra = Extra::new();
        keep(&mut extra, "IPv6", &true);
        keep(&mut extra, "GatewayMac", &String::new());
        assert_eq!(json!(*extra), json!({"IPv6": true}));
        assert!(bring_back::<bool>(&mut extra, "IPv6"));
        assert!(extra.is_empty());
    }

    #[test]
    fn what_is_no_such_field_stays() {
        let mut extra = Extra::from_iter([("ipv6".to_owned(), json!("yes"))]);
        assert!(!bring_back::<bool>(&mut extra, "IPv6"));
        assert_eq!(json!(*extra), json!({"IPv6": "yes"}));
    }
}
