//! Reading label selectors as URLs have them. What is wrong is said in the words of the original.

use super::{Operator, Requirement};
use crate::server::name::{label_value, qualified};

/// What ends a word.
const SIGNS: &str = "=!(),<>";

/// The rest of a selector that is being read.
pub(super) struct Parser<'a> {
    pub(super) rest: &'a str,
}

impl<'a> Parser<'a> {
    pub(super) fn requirements(mut self) -> Result<Vec<Requirement>, String> {
        let mut all = Vec::new();
        if self.rest.is_empty() {
            return Ok(all);
        }
        if !self.begins_requirement() {
            return Err(format!("found '{}', expected: !, identifier, or 'end of string'", self.token()));
        }
        loop {
            all.push(self.requirement().map_err(|cause| format!("unable to parse requirement: {cause}"))?);
            match self.eat(",") {
                true if !self.begins_requirement() => return Err(format!("found '{}', expected: identifier after ','", self.token())),
                true => {}
                false if self.rest.is_empty() => return Ok(all),
                false => return Err(format!("found '{}', expected: ',' or 'end of string'", self.token())),
            }
        }
    }

    fn begins_requirement(&self) -> bool {
        let first = self.rest.trim_start().chars().next();
        first.is_some_and(|first| first == '!' || !SIGNS.contains(first))
    }

    /// The next word or sign, for messages.
    fn token(&self) -> &'a str {
        let text = self.rest.trim_start();
        match text.chars().next() {
            Some(sign) if SIGNS.contains(sign) => text.get(..sign.len_utf8()).unwrap_or_default(),
            _ => Parser { rest: text }.word(),
        }
    }

    fn eat(&mut self, token: &str) -> bool {
        match self.rest.trim_start().strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    /// The next word, up to white space or a sign.
    fn word(&mut self) -> &'a str {
        let text = self.rest.trim_start();
        let end = text.find(|character: char| character.is_whitespace() || SIGNS.contains(character)).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.rest = rest.trim_start();
        word
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = self.eat("!");
        let key = self.word().to_owned();
        if key.is_empty() {
            return Err(format!("found '{}', expected: identifier", self.token()));
        }
        if let Some(cause) = qualified(&key) {
            return Err(format!("<nil>: Invalid value: {key:?}: {cause}"));
        }
        if absent {
            return Ok(Requirement { key, operator: Operator::DoesNotExist, values: Vec::new() });
        }
        let (operator, values) = self.condition()?;
        Ok(Requirement { key, operator, values })
    }

    fn condition(&mut self) -> Result<(Operator, Vec<String>), String> {
        if self.rest.is_empty() || self.rest.starts_with(',') {
            return Ok((Operator::Exists, Vec::new()));
        }
        for (sign, operator) in [("==", Operator::In), ("=", Operator::In), ("!=", Operator::NotIn)] {
            if self.eat(sign) {
                return Ok((operator, vec![self.value()?]));
            }
        }
        for (sign, operator) in [(">", Operator::GreaterThan), ("<", Operator::LessThan)] {
            if self.eat(sign) {
                let value = self.value()?;
                value
                    .parse::<i64>()
                    .map_err(|_| format!("values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"))?;
                return Ok((operator, vec![value]));
            }
        }
        match self.word() {
            "in" => Ok((Operator::In, self.values()?)),
            "notin" => Ok((Operator::NotIn, self.values()?)),
            "" => Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", self.token())),
            other => Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
        }
    }

    fn value(&mut self) -> Result<String, String> {
        let value = self.word().to_owned();
        match label_value(&value) {
            Some(cause) => Err(format!("values[0][{value}]: Invalid value: {value:?}: {cause}")),
            None => Ok(value),
        }
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        if !self.eat("(") {
            return Err(format!("found '{}' expected: '('", self.token()));
        }
        let mut values = Vec::new();
        loop {
            values.push(self.value()?);
            if self.eat(")") {
                return Ok(values);
            }
            if !self.eat(",") {
                return Err(format!("found '{}', expected: ',' or ')'", self.token()));
            }
        }
    }
}
