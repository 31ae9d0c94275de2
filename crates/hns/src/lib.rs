//! hns
