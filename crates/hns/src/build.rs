//! The build a service runs as: a profile with items added or taken away.

use std::collections::BTreeSet;

use hcn::error::{Error, Result, detail};

use crate::profile::{self, Defect, Feature, Limit, Profile, Version};

/// A profile after `--with` and `--without`.
#[derive(Clone, Debug)]
pub struct Build {
    /// Where it started from.
    pub profile: &'static Profile,
    features: BTreeSet<Feature>,
    limits: BTreeSet<Limit>,
    defects: BTreeSet<Defect>,
}

impl Default for Build {
    fn default() -> Self {
        Self::of(profile::default())
    }
}

impl Build {
    /// A profile as it is.
    pub fn of(profile: &'static Profile) -> Self {
        Self {
            profile,
            features: profile.features().collect(),
            limits: profile.limits.iter().copied().collect(),
            defects: profile.defects.iter().copied().collect(),
        }
    }

    /// A profile by name, with items switched on or off by name.
    pub fn named(profile: &str, with: &[String], without: &[String]) -> Result<Self> {
        let found = profile::find(profile).ok_or_else(|| unknown("profile", profile, profile::ALL.iter().map(|profile| profile.name)))?;
        let mut build = Self::of(found);
        for item in with {
            build.switch(item, true)?;
        }
        for item in without {
            build.switch(item, false)?;
        }
        Ok(build)
    }

    fn switch(&mut self, item: &str, on: bool) -> Result<()> {
        let known = switch_in(&mut self.features, Feature::ALL, Feature::name, item, on)
            || switch_in(&mut self.limits, Limit::ALL, Limit::name, item, on)
            || switch_in(&mut self.defects, Defect::ALL, Defect::name, item, on);
        let names = || {
            let features = Feature::ALL.iter().map(|item| item.name());
            features.chain(Limit::ALL.iter().map(|item| item.name())).chain(Defect::ALL.iter().map(|item| item.name()))
        };
        if known { Ok(()) } else { Err(unknown("item", item, names())) }
    }

    /// The version that `/globals/version` reports.
    pub fn version(&self) -> Version {
        self.profile.version
    }

    /// The version as objects carry it: major in the upper half.
    pub fn version_number(&self) -> u64 {
        let (major, minor) = self.profile.version;
        u64::from(major) << 32 | u64::from(minor)
    }

    /// Whether the build has a feature.
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// Whether the build has a limit.
    pub fn limited(&self, limit: Limit) -> bool {
        self.limits.contains(&limit)
    }

    /// Whether the build has a defect.
    pub fn defective(&self, defect: Defect) -> bool {
        self.defects.contains(&defect)
    }

    /// How many backends one load balancer may have.
    pub fn max_backends(&self) -> Option<usize> {
        match (self.limited(Limit::Backends64), self.limited(Limit::Backends1024)) {
            (true, _) => Some(64),
            (false, true) => Some(1024),
            (false, false) => None,
        }
    }

    /// Features, limits and defects by name.
    pub fn items(&self) -> (Vec<&'static str>, Vec<&'static str>, Vec<&'static str>) {
        (
            self.features.iter().map(|item| item.name()).collect(),
            self.limits.iter().map(|item| item.name()).collect(),
            self.defects.iter().map(|item| item.name()).collect(),
        )
    }
}

fn switch_in<T: Copy + Ord>(set: &mut BTreeSet<T>, all: &[T], name: fn(T) -> &'static str, item: &str, on: bool) -> bool {
    let Some(found) = all.iter().copied().find(|candidate| name(*candidate).eq_ignore_ascii_case(item)) else {
        return false;
    };
    if on {
        set.insert(found)
    } else {
        set.remove(&found)
    };
    true
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Error {
    let known: Vec<&str> = known.collect();
    Error::InvalidParameter(detail(format!("there is no {what} {name:?}")).remedy(format!("use one of {}", known.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_added_and_taken_away() {
        let build = Build::named("ws2019", &["set-policy".into()], &["backends-64".into()]).unwrap();
        assert!(build.has(Feature::SetPolicy));
        assert_eq!(build.max_backends(), None);
        assert_eq!(Build::named("ws2022", &[], &[]).unwrap().max_backends(), Some(1024));
    }

    #[test]
    fn unknown_names_are_answered_with_the_known_ones() {
        let error = Build::named("ws2016", &[], &[]).unwrap_err();
        assert!(error.to_string().contains("ws2019, 1903, 20h2, ws2022, ws2025, transom"), "{error}");
        assert!(Build::named("transom", &["speed".into()], &[]).is_err());
    }
}
