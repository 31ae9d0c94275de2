//! What users of Microsoft's `hnsdiag` know.
//!
//! Its output is not documented, so it is taken from what people published:
//!
//! * `hnsdiag list all` and `hnsdiag list loadbalancers` on Windows Server 2019 and 2022: a heading for each kind under
//!   `all` only; networks and endpoints in columns of 16 and 36 characters; namespaces and load balancers with bars, and
//!   a blank before every virtual address. Network ids are upper case, all others lower case. (gist shettyg/542f7e7b87ac,
//!   notes of SIG Windows members, a flannel walk-through; scripts that support engineers run over these lists look for
//!   the same headings.)
//! * `hnsdiag list all -df` on Windows 10 2004: the documents of schema 1 one after the other with no heading, indented
//!   by four, no blank after the colon, an empty line inside empty objects and arrays (microsoft/WSL issues 6410, 6457,
//!   7127; microsoft/WSL `networking.bat` uses `-df`, others `-d` and `-dfl`).
//! * `hnsdiag delete networks ID` as in Microsoft's troubleshooting page for Kubernetes.
//!
//! Newer builds print blocks (`Adapter : {GUID}`, then indented `Name : …`) for adapters (microsoft/SDN pull request 456);
//! no published output shows that form for the objects here.

use std::io;

use hcn::api::Kind;
use hcn::endpoint::Endpoint;
use hcn::load_balancer::LoadBalancer;
use hcn::namespace::Namespace;
use hcn::network::Network;
use hcn::{Guid, Hcn, HcnExt};
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::Formatter;

use super::Context;
use crate::cli::{HnsdiagObjects, HnsdiagVerb};
use crate::exit::{Exit, Failure};
use crate::output::Format;
use crate::world::{World, resolve};

/// Does what a verb says.
pub(crate) fn run(context: &Context, verb: HnsdiagVerb) -> Result<(), Failure> {
    match verb {
        HnsdiagVerb::List { what, details, .. } => match (details, context.output.format) {
            (_, Format::Json | Format::Yaml) => context.output.value(&Value::Array(documents(context.hcn.as_ref(), what)?)),
            (true, _) => context.output.text(&detailed(&documents(context.hcn.as_ref(), what)?)?),
            (false, _) => context.output.text(&summary(context.hcn.as_ref(), what)?),
        },
        HnsdiagVerb::Delete { what, ids } => delete(context, what, &ids),
    }
}

impl HnsdiagObjects {
    fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Networks => &[Kind::Network],
            Self::Endpoints => &[Kind::Endpoint],
            Self::Namespaces => &[Kind::Namespace],
            Self::Loadbalancers => &[Kind::LoadBalancer],
            Self::All => &[Kind::Network, Kind::Endpoint, Kind::Namespace, Kind::LoadBalancer],
        }
    }
}

/// The documents in schema 1, which is what a query without a version asks for.
fn documents(hcn: &dyn Hcn, what: HnsdiagObjects) -> Result<Vec<Value>, Failure> {
    let mut documents = Vec::new();
    for kind in what.kinds() {
        documents.extend(hcn.list(*kind, "{}")?);
    }
    Ok(documents)
}

fn detailed(documents: &[Value]) -> Result<String, Failure> {
    let mut text = Vec::new();
    for document in documents {
        let mut serializer = serde_json::Serializer::with_formatter(&mut text, HnsFormatter::default());
        document.serialize(&mut serializer).map_err(|error| Failure::new(Exit::Failed, format!("cannot print JSON: {error}")))?;
        text.push(b'\n');
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn summary(hcn: &dyn Hcn, what: HnsdiagObjects) -> Result<String, Failure> {
    let world = World::new(hcn);
    let mut parts = Vec::new();
    for kind in what.kinds() {
        let (heading, lines) = match kind {
            Kind::Network => ("Networks:", networks(&hcn.objects(&[])?)),
            Kind::Endpoint => ("Endpoints:", endpoints(&world, &hcn.objects(&[])?)?),
            Kind::Namespace => ("Namespaces:", namespaces(&hcn.objects(&[])?)?),
            _ => ("LoadBalancers:", load_balancers(&hcn.objects(&[])?)),
        };
        parts.push(if what == HnsdiagObjects::All { format!("{heading}\n{lines}") } else { lines });
    }
    Ok(parts.join("\n"))
}

fn networks(networks: &[Network]) -> String {
    let mut text = format!("{:<16} ID\n", "Name");
    for network in networks {
        text += &format!("{:<16} {}\n", network.name, network.id.to_string().to_uppercase());
    }
    text
}

fn endpoints(world: &World<'_>, endpoints: &[Endpoint]) -> Result<String, Failure> {
    let mut text = format!("{:<16} {:<36} Virtual Network Name\n", "Name", "ID");
    for endpoint in endpoints {
        text += &format!("{:<16} {} {}\n", endpoint.name, endpoint.id, world.network_name(endpoint.network)?);
    }
    Ok(text)
}

fn namespaces(namespaces: &[Namespace]) -> Result<String, Failure> {
    let mut text = format!("{:<36} | Endpoint IDs\n", "ID");
    for namespace in namespaces {
        let ids = namespace.endpoints().collect::<Result<Vec<Guid>, _>>()?;
        text += format!("{} | {}", namespace.id, joined(&ids)).trim_end();
        text.push('\n');
    }
    Ok(text)
}

fn load_balancers(balancers: &[LoadBalancer]) -> String {
    let mut text = format!("{:<36} | {:<16} | Direct IP IDs\n", "ID", "Virtual IPs");
    for balancer in balancers {
        let vips: String = balancer.frontend_vips.iter().map(|vip| format!(" {vip}")).collect();
        text += format!("{} | {vips:<16} | {}", balancer.id, joined(&balancer.endpoints)).trim_end();
        text.push('\n');
    }
    text
}

fn joined(ids: &[Guid]) -> String {
    ids.iter().map(Guid::to_string).collect::<Vec<_>>().join(" ")
}

fn delete(context: &Context, what: HnsdiagObjects, ids: &[String]) -> Result<(), Failure> {
    let &[kind] = what.kinds() else {
        return Err(Failure::new(Exit::Usage, "an id belongs to one kind of object").remedy("say which kind instead of all"));
    };
    for id in ids {
        let id = resolve(context.hcn.as_ref(), kind, id)?;
        context.hcn.delete(kind, id)?;
    }
    Ok(())
}

/// JSON as HNS indents it.
#[derive(Default)]
struct HnsFormatter {
    depth: usize,
    filled: bool,
}

impl HnsFormatter {
    fn open<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        writer.write_all(bracket)
    }

    fn close<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if !self.filled {
            writer.write_all(b"\n")?;
        }
        self.filled = true;
        self.new_line(writer)?;
        writer.write_all(bracket)
    }

    fn next<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(b",")?;
        }
        self.new_line(writer)
    }

    fn new_line<W: ?Sized + io::Write>(&self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b"\n")?;
        writer.write_all("    ".repeat(self.depth).as_bytes())
    }
}

impl Formatter for HnsFormatter {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, _writer: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, _writer: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id(number: u128) -> Guid {
        Guid::from_u128(0x3d5a_2f0e_0000_4000_8000_0000_0000_0000 + number)
    }

    #[test]
    fn networks_stand_in_columns() {
        let network = Network { id: id(0xa), name: "vxlan0".into(), ..Network::default() };
        assert_eq!(networks(&[network]), "Name             ID\nvxlan0           3D5A2F0E-0000-4000-8000-00000000000A\n");
    }

    #[test]
    fn load_balancers_have_bars() {
        let some =
            LoadBalancer { id: id(1), frontend_vips: vec!["10.96.0.10".into()], endpoints: vec![id(2), id(3)], ..LoadBalancer::default() };
        let node = LoadBalancer { id: id(4), endpoints: vec![id(2)], ..LoadBalancer::default() };
        let expected = "\
ID                                   | Virtual IPs      | Direct IP IDs
3d5a2f0e-0000-4000-8000-000000000001 |  10.96.0.10      | 3d5a2f0e-0000-4000-8000-000000000002 3d5a2f0e-0000-4000-8000-000000000003
3d5a2f0e-0000-4000-8000-000000000004 |                  | 3d5a2f0e-0000-4000-8000-000000000002
";
        assert_eq!(load_balancers(&[some, node]), expected);
    }

    #[test]
    fn details_are_indented_as_hns_does() {
        let document = json!({"ActivityId": "2BE4", "AdditionalParams": {}, "Extensions": [{"IsEnabled": false}], "Policies": []});
        let expected = r#"{
    "ActivityId":"2BE4",
    "AdditionalParams":{

    },
    "Extensions":[
        {
            "IsEnabled":false
        }
    ],
    "Policies":[

    ]
}
"#;
        assert_eq!(detailed(&[document]).unwrap(), expected);
    }
}
