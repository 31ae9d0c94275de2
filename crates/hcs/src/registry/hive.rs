//! Keys and values.

use std::collections::BTreeMap;

/// A value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `REG_SZ`: text.
    Text(String),
    /// `REG_EXPAND_SZ`: text with variables such as `%SystemRoot%`.
    Expandable(String),
    /// `REG_MULTI_SZ`: several texts, none of them empty.
    List(Vec<String>),
    /// `REG_DWORD`: a number of 32 bits.
    Number(u32),
    /// `REG_QWORD`: a number of 64 bits.
    LongNumber(u64),
    /// `REG_BINARY`: bytes.
    Bytes(Vec<u8>),
}

impl Value {
    /// The name of its type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "REG_SZ",
            Self::Expandable(_) => "REG_EXPAND_SZ",
            Self::List(_) => "REG_MULTI_SZ",
            Self::Number(_) => "REG_DWORD",
            Self::LongNumber(_) => "REG_QWORD",
            Self::Bytes(_) => "REG_BINARY",
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number)
    }
}

/// A key: values in the order they were set, and keys below it in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
    name: String,
    values: Vec<(String, Value)>,
    keys: BTreeMap<String, Key>,
}

impl Key {
    /// Its name, as it was first given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its values. The one without a name is the key's default.
    pub fn values(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The keys right below it.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.keys.values()
    }

    /// One of its values.
    pub fn value(&self, name: &str) -> Option<&Value> {
        let wanted = folded(name);
        self.values().find(|(name, _)| folded(name) == wanted).map(|(_, value)| value)
    }

    /// Gives it a value. One of the same name is replaced, and keeps its place and its name.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) -> &mut Self {
        let wanted = folded(name);
        match self.values.iter_mut().find(|(name, _)| folded(name) == wanted) {
            Some((_, old)) => *old = value.into(),
            None => self.values.push((name.to_owned(), value.into())),
        }
        self
    }

    /// Takes a value away.
    pub fn unset(&mut self, name: &str) {
        let wanted = folded(name);
        self.values.retain(|(name, _)| folded(name) != wanted);
    }

    fn below(&mut self, name: &str) -> &mut Key {
        self.keys.entry(folded(name)).or_insert_with(|| Key { name: name.to_owned(), ..Key::default() })
    }
}

/// All keys of a registry, by paths such as `HKLM\SYSTEM\CurrentControlSet`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hive {
    root: Key,
}

impl Hive {
    /// A key, if it is there.
    pub fn key(&self, path: &str) -> Option<&Key> {
        names(path).try_fold(&self.root, |key, name| key.keys.get(&folded(name)))
    }

    /// A key, made with all above it where it is missing.
    pub fn make(&mut self, path: &str) -> &mut Key {
        names(path).fold(&mut self.root, Key::below)
    }

    /// Takes a key away, with all below it.
    pub fn delete(&mut self, path: &str) {
        let names: Vec<&str> = names(path).collect();
        let Some((last, above)) = names.split_last() else {
            return;
        };
        let parent = above.iter().try_fold(&mut self.root, |key, name| key.keys.get_mut(&folded(name)));
        if let Some(parent) = parent {
            parent.keys.remove(&folded(last));
        }
    }

    /// A value of a key.
    pub fn value(&self, path: &str, name: &str) -> Option<&Value> {
        self.key(path)?.value(name)
    }

    /// The keys that everything else is below.
    pub fn roots(&self) -> impl Iterator<Item = &Key> {
        self.root.keys()
    }

    /// Every key with its path, the ones above before those below.
    pub fn walk(&self) -> Vec<(String, &Key)> {
        let mut found = Vec::new();
        self.roots().for_each(|key| collect(key, key.name.clone(), &mut found));
        found
    }
}

fn collect<'a>(key: &'a Key, path: String, found: &mut Vec<(String, &'a Key)>) {
    found.push((path.clone(), key));
    key.keys().for_each(|below| collect(below, format!("{path}\\{}", below.name), found));
}

/// The names of a path. The short names of roots stand for the long ones.
fn names(path: &str) -> impl Iterator<Item = &str> {
    let mut names = path.split('\\').filter(|name| !name.is_empty());
    let root = names.next().map(|root| match root.to_ascii_uppercase().as_str() {
        "HKLM" => "HKEY_LOCAL_MACHINE",
        "HKCU" => "HKEY_CURRENT_USER",
        "HKU" => "HKEY_USERS",
        "HKCR" => "HKEY_CLASSES_ROOT",
        _ => root,
    });
    root.into_iter().chain(names)
}

/// A name as it is compared.
fn folded(name: &str) -> String {
    name.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_case_and_are_found_in_any() {
        let mut hive = Hive::default();
        hive.make(r"HKLM\System\Select").set("Current", 1);
        hive.make(r"hkey_local_machine\SYSTEM\select").set("CURRENT", 2).set("Default", 3);
        assert_eq!(hive.value(r"HKLM\system\SELECT", "current"), Some(&Value::Number(2)));
        let paths: Vec<String> = hive.walk().into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["HKEY_LOCAL_MACHINE", r"HKEY_LOCAL_MACHINE\System", r"HKEY_LOCAL_MACHINE\System\Select"]);
        let names: Vec<&str> = hive.key(r"HKLM\System\Select").unwrap().values().map(|(name, _)| name).collect();
        assert_eq!(names, ["Current", "Default"]);
    }

    #[test]
    fn a_key_goes_with_all_below_it() {
        let mut hive = Hive::default();
        hive.make(r"HKLM\A\B\C").set("x", 1);
        hive.delete(r"HKLM\a\b");
        assert!(hive.key(r"HKLM\A").is_some());
        assert!(hive.key(r"HKLM\A\B\C").is_none());
        hive.make(r"HKLM\A").set("x", 1).unset("X");
        assert_eq!(hive.key(r"HKLM\A").unwrap().values().count(), 0);
    }
}
