//! What a container asks for of processor and memory, as a number. Nothing of it is enforced.

use k8s_openapi::api::core::v1::{Container, ResourceFieldSelector};

/// What a node has, which is the limit of a container that has none.
const CPU: &str = "4";
const MEMORY: &str = "8Gi";

/// Units of quantities, the longer first.
const UNITS: [(&str, f64); 12] = [
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("n", 1e-9),
    ("u", 1e-6),
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
];

/// The value of a field such as `limits.cpu`, in the units of its divisor, rounded up.
pub(super) fn value(selector: &ResourceFieldSelector, container: &Container) -> Result<String, String> {
    let unknown = || format!("{} is not known here", selector.resource);
    let (group, name) = selector.resource.split_once('.').ok_or_else(unknown)?;
    let resources = container.resources.clone().unwrap_or_default();
    let of = |map: &Option<std::collections::BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>| {
        map.as_ref().and_then(|map| map.get(name)).map(|quantity| quantity.0.clone())
    };
    let asked = match group {
        "limits" => of(&resources.limits),
        "requests" => of(&resources.requests).or_else(|| of(&resources.limits)),
        _ => return Err(unknown()),
    };
    let quantity = match (asked, group, name) {
        (Some(quantity), ..) => quantity,
        (None, "limits", "cpu") => CPU.to_owned(),
        (None, "limits", "memory") => MEMORY.to_owned(),
        (None, ..) => "0".to_owned(),
    };
    let divisor = selector.divisor.as_ref().map(|it| it.0.as_str()).filter(|text| !matches!(*text, "" | "0")).unwrap_or("1");
    let parts = number(&quantity).zip(number(divisor)).ok_or_else(|| format!("{}: {quantity:?} is no quantity", selector.resource))?;
    Ok(format!("{:.0}", (parts.0 / parts.1).ceil()))
}

fn number(quantity: &str) -> Option<f64> {
    let unit = UNITS.iter().find_map(|(suffix, factor)| Some((quantity.strip_suffix(suffix)?, *factor)));
    let (digits, factor) = unit.unwrap_or((quantity, 1.0));
    digits.parse::<f64>().ok().map(|number| number * factor)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_counted_in_the_divisors_units() {
        let container: Container = serde_json::from_value(
            json!({"name": "it", "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"cpu": "250m"}}}),
        )
        .unwrap();
        let table = [
            ("limits.cpu", "", Ok("2")),
            ("limits.cpu", "1m", Ok("1500")),
            ("requests.cpu", "1m", Ok("250")),
            ("limits.memory", "1Mi", Ok("64")),
            ("requests.memory", "", Ok("67108864")),
            ("limits.moon", "", Ok("0")),
            ("moon", "", Err("moon is not known here".to_owned())),
        ];
        for (resource, divisor, expected) in table {
            let selector = serde_json::from_value(json!({"resource": resource, "divisor": divisor})).unwrap();
            assert_eq!(value(&selector, &container), expected.map(str::to_owned), "{resource} {divisor}");
        }
    }
}
