//! Layers, and the program of a port.

use std::sync::Arc;

use crate::group::{Group, GroupSpec};
use crate::port::Direction;
use crate::rule::{Place, Registry};
use crate::table::TableId;

/// A layer as it is to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerSpec {
    /// What it is known by.
    pub name: String,
    /// Whether it decides once per connection: what answers an accepted packet passes unasked.
    pub stateful: bool,
    /// Groups for what the NIC sends, in order.
    pub outward: Vec<GroupSpec>,
    /// Groups for what goes to the NIC, in order.
    pub inward: Vec<GroupSpec>,
    /// Tables for what the NIC sends, asked after the groups.
    pub tables: Vec<TableId>,
}

/// All layers of a port, in the order in which a packet from the NIC meets them; a packet to the NIC meets them in reverse.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramSpec {
    /// The layers.
    pub layers: Vec<LayerSpec>,
}

/// A layer in force.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) stateful: bool,
    outward: Vec<Group>,
    inward: Vec<Group>,
    tables: Vec<TableId>,
}

/// A program in force: a value that never changes. Changing policy replaces it.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(crate) layers: Vec<Layer>,
}

impl ProgramSpec {
    /// The tables that its layers ask.
    pub(crate) fn tables(&self) -> impl Iterator<Item = TableId> {
        self.layers.iter().flat_map(|layer| layer.tables.iter().copied())
    }
}

impl Layer {
    pub(crate) fn groups(&self, direction: Direction) -> &[Group] {
        match direction {
            Direction::Out => &self.outward,
            Direction::In => &self.inward,
        }
    }

    /// The tables that are asked after the groups.
    pub(crate) fn tables(&self, direction: Direction) -> &[TableId] {
        match direction {
            Direction::Out => &self.tables,
            Direction::In => &[],
        }
    }
}

impl Program {
    pub(crate) fn build(spec: &ProgramSpec, owner: &str, registry: &mut Registry) -> Arc<Self> {
        let layers = spec.layers.iter().map(|layer| build_layer(layer, owner, registry)).collect();
        Arc::new(Self { layers })
    }

    /// Whether one of the layers asks this table.
    pub(crate) fn asks(&self, table: TableId) -> bool {
        self.layers.iter().any(|layer| layer.tables.contains(&table))
    }

    /// The layers in the order in which a packet of this direction meets them.
    pub(crate) fn layers(&self, direction: Direction) -> impl Iterator<Item = &Layer> {
        let (outward, inward) = match direction {
            Direction::Out => (Some(self.layers.iter()), None),
            Direction::In => (None, Some(self.layers.iter().rev())),
        };
        outward.into_iter().flatten().chain(inward.into_iter().flatten())
    }
}

fn build_layer(spec: &LayerSpec, owner: &str, registry: &mut Registry) -> Layer {
    let mut groups = |groups: &[GroupSpec]| -> Vec<Group> {
        let place =
            |group: &GroupSpec| Place { owner: owner.to_owned(), layer: spec.name.clone(), group: group.name.clone(), rule: String::new() };
        groups.iter().map(|group| Group::build(group, &place(group), registry)).collect()
    };
    Layer { stateful: spec.stateful, outward: groups(&spec.outward), inward: groups(&spec.inward), tables: spec.tables.clone() }
}
