//! A table that its connection owns, with base chains whose rules are replaced together.

use super::attribute::Attributes;
use super::batch::{APPEND, Batch, CREATE, Connection, EXCLUSIVE, Family, Operation};
use super::error::NftError;
use super::expression::Steps;

const TABLE_OWNED: u32 = 2;

/// A chain that packets enter from outside.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    pub(super) name: &'static str,
    /// `filter` or `nat`.
    pub(super) kind: &'static str,
    /// The number of the place in the network stack.
    pub(super) hook: u32,
    pub(super) priority: i32,
    /// The device, for chains of the netdev family.
    pub(super) device: Option<String>,
    /// Whether packets that no rule accepts are dropped.
    pub(super) drops: bool,
}

/// The table, for as long as this value lives.
#[derive(Debug)]
pub(super) struct Table {
    connection: Connection,
    family: Family,
    name: String,
    chains: Vec<Chain>,
}

impl Table {
    /// Makes the table with its chains and rules; `rules` has those of each chain in turn.
    pub(super) fn create(family: Family, name: String, chains: Vec<Chain>, rules: &[Vec<Steps>]) -> Result<Self, NftError> {
        let mut table = Self { connection: Connection::open()?, family, name, chains };
        let mut batch = Batch::new(family);
        let attributes = Attributes::new().text(1, &table.name).number(2, TABLE_OWNED);
        batch.add(Operation::NewTable, CREATE | EXCLUSIVE, attributes);
        for chain in &table.chains {
            batch.add(Operation::NewChain, CREATE, chain.attributes(&table.name));
        }
        table.add_rules(&mut batch, rules);
        let operation = format!("make the nf_tables table {}", table.name);
        table.connection.commit(&batch, &operation).map_err(|error| table.explained(error))?;
        Ok(table)
    }

    /// Makes a table that stays when everybody who knows of it is gone, in place of the one of that name, at one instant.
    pub(super) fn leave(family: Family, name: &str, chains: &[Chain], rules: &[Vec<Steps>]) -> Result<(), NftError> {
        let table = Self { connection: Connection::open()?, family, name: name.to_owned(), chains: chains.to_vec() };
        let mut batch = Batch::new(family);
        let named = || Attributes::new().text(1, name);
        // It can only be deleted if it is there, so it is made first, unless it is.
        batch.add(Operation::NewTable, CREATE, named());
        batch.add(Operation::DeleteTable, 0, named());
        batch.add(Operation::NewTable, CREATE, named());
        chains.iter().for_each(|chain| batch.add(Operation::NewChain, CREATE, chain.attributes(name)));
        table.add_rules(&mut batch, rules);
        let Self { mut connection, .. } = table;
        connection.commit(&batch, &format!("make the nf_tables table {name}"))
    }

    /// Removes a table that stays, if it is there.
    pub(super) fn remove(family: Family, name: &str) -> Result<(), NftError> {
        let mut batch = Batch::new(family);
        let named = || Attributes::new().text(1, name);
        batch.add(Operation::NewTable, CREATE, named());
        batch.add(Operation::DeleteTable, 0, named());
        Connection::open()?.commit(&batch, &format!("remove the nf_tables table {name}"))
    }

    /// Replaces all rules at one instant.
    pub(super) fn replace(&mut self, rules: &[Vec<Steps>]) -> Result<(), NftError> {
        let mut batch = Batch::new(self.family);
        for chain in &self.chains {
            // Without a handle it means all rules of the chain.
            batch.add(Operation::DeleteRule, 0, Attributes::new().text(1, &self.name).text(2, chain.name));
        }
        self.add_rules(&mut batch, rules);
        let operation = format!("replace the rules of the nf_tables table {}", self.name);
        self.connection.commit(&batch, &operation)
    }

    fn add_rules(&self, batch: &mut Batch, rules: &[Vec<Steps>]) {
        for (chain, rules) in self.chains.iter().zip(rules) {
            for rule in rules {
                let attributes = Attributes::new().text(1, &self.name).text(2, chain.name).nested(4, rule.attributes());
                batch.add(Operation::NewRule, CREATE | APPEND, attributes);
            }
        }
    }

    /// A table of somebody else looks like a missing privilege, or like one that exists; which it is can be asked.
    fn explained(&mut self, error: NftError) -> NftError {
        let busy = match &error {
            NftError::Forbidden { .. } => self.connection.is_permitted(),
            NftError::Io { cause, .. } => cause.raw_os_error() == Some(libc::EEXIST),
            _ => false,
        };
        if busy { NftError::Busy { table: self.name.clone() } } else { error }
    }
}

impl Chain {
    pub(super) fn attributes(&self, table: &str) -> Attributes {
        let mut hook = Attributes::new().number(1, self.hook).number(2, self.priority.cast_unsigned());
        if let Some(device) = &self.device {
            hook = hook.text(3, device);
        }
        let policy = u32::from(!self.drops);
        Attributes::new().text(1, table).text(3, self.name).nested(4, &hook).number(5, policy).text(7, self.kind)
    }
}
