//! List, show, create, modify, delete: the same for every kind of object.

use std::io::{self, BufRead, IsTerminal};
use std::path::Path;

use clap::Args;
use hcn::api::{Kind, Object};
use hcn::query::Query;
use hcn::{Guid, Hcn, HcnExt};
use serde_json::{Map, Value, json};

use super::{Context, watch};
use crate::cli::{CreateArgs, DeleteArgs, ListArgs, Nothing, ObjectVerb, OfNetwork, OnNetwork};
use crate::describe::Description;
use crate::exit::{Exit, Failure};
use crate::input::{self, Document};
use crate::output::{Cell, Table, note};
use crate::progress::Progress;
use crate::world::{World, resolve};

/// A kind of object as people see it.
pub(crate) trait Noun: Object {
    /// The word for one, and the word for many.
    const WORDS: (&'static str, &'static str);

    /// Its id.
    fn id(&self) -> Guid;

    /// Its name; most kinds have one, few use it.
    fn name(&self) -> &str;

    /// The columns of a list, after the id.
    fn header(wide: bool) -> Vec<&'static str>;

    /// The cells of those columns.
    fn row(&self, world: &World<'_>, wide: bool) -> Result<Vec<Cell>, Failure>;

    /// Everything about it.
    fn describe(&self, world: &World<'_>) -> Result<Description, Failure>;
}

/// What narrows a list, beyond name and filter.
pub(crate) trait Narrow {
    /// Adds its properties to the filter.
    fn narrow(&self, hcn: &dyn Hcn, filter: &mut Map<String, Value>) -> Result<(), Failure>;
}

impl Narrow for Nothing {
    fn narrow(&self, _hcn: &dyn Hcn, _filter: &mut Map<String, Value>) -> Result<(), Failure> {
        Ok(())
    }
}

impl Narrow for OfNetwork {
    fn narrow(&self, hcn: &dyn Hcn, filter: &mut Map<String, Value>) -> Result<(), Failure> {
        if let Some(reference) = &self.network {
            let id = resolve(hcn, Kind::Network, reference)?;
            // The service matches filters against its older documents, where the property has this name.
            filter.insert("VirtualNetwork".into(), json!(id.to_string()));
        }
        Ok(())
    }
}

/// Where to make something, beyond the document.
pub(crate) trait Placement {
    /// The network, if one was named.
    fn network(&self, hcn: &dyn Hcn) -> Result<Option<Guid>, Failure>;
}

impl Placement for Nothing {
    fn network(&self, _hcn: &dyn Hcn) -> Result<Option<Guid>, Failure> {
        Ok(None)
    }
}

impl Placement for OnNetwork {
    fn network(&self, hcn: &dyn Hcn) -> Result<Option<Guid>, Failure> {
        self.network.as_deref().map(|reference| resolve(hcn, Kind::Network, reference)).transpose()
    }
}

/// Does what a verb says to objects of one kind.
pub(crate) fn run<T: Noun, L: Args + Narrow, C: Args + Placement>(context: &Context, verb: ObjectVerb<L, C>) -> Result<(), Failure> {
    match verb {
        ObjectVerb::List(args) => list::<T, L>(context, &args),
        ObjectVerb::Show { references } => show::<T>(context, &references),
        ObjectVerb::Create(args) => create::<T, C>(context, &args),
        ObjectVerb::Modify { reference, file } => modify::<T>(context, &reference, &file),
        ObjectVerb::Delete(args) => delete::<T>(context, &args),
        ObjectVerb::Watch => watch::run(context, T::KIND),
    }
}

fn list<T: Noun, L: Args + Narrow>(context: &Context, args: &ListArgs<L>) -> Result<(), Failure> {
    let hcn = context.hcn.as_ref();
    let documents = hcn.list(T::KIND, &query(hcn, args)?)?;
    if !context.output.is_for_people() {
        return context.output.value(&Value::Array(documents));
    }
    if documents.is_empty() {
        note(&format!("no {}", T::WORDS.1));
        return Ok(());
    }
    let mut objects = documents.into_iter().map(read::<T>).collect::<Result<Vec<T>, Failure>>()?;
    objects.sort_by(|one, other| (one.name(), one.id()).cmp(&(other.name(), other.id())));
    context.output.table(&table(&World::new(hcn), &objects, context.output.is_wide())?)
}

fn read<T: Noun>(document: Value) -> Result<T, Failure> {
    Ok(T::read(document, &hcn::Path::Root)?)
}

fn query<L: Args + Narrow>(hcn: &dyn Hcn, args: &ListArgs<L>) -> Result<String, Failure> {
    let mut filter = args.filter.as_deref().map(parse_filter).transpose()?.unwrap_or_default();
    if let Some(name) = &args.name {
        filter.insert("Name".into(), json!(name));
    }
    args.more.narrow(hcn, &mut filter)?;
    let mut query = Query::v2(&[]);
    if !filter.is_empty() {
        query.filter = Value::Object(filter).to_string();
    }
    Ok(hcn::print(&query))
}

fn parse_filter(text: &str) -> Result<Map<String, Value>, Failure> {
    serde_json::from_str(text).map_err(|error| {
        Failure::new(Exit::Usage, format!("the filter is no JSON object: {error}")).remedy(r#"write one such as '{"Name":"cbr0"}'"#)
    })
}

/// A list of objects as a table.
pub(crate) fn table<T: Noun>(world: &World<'_>, objects: &[T], wide: bool) -> Result<Table, Failure> {
    let mut table = Table::new(std::iter::once("ID").chain(T::header(wide)).collect());
    for object in objects {
        let id = if wide { object.id().to_string() } else { world.short(T::KIND, object.id())? };
        table.row(std::iter::once(Cell::from(id)).chain(object.row(world, wide)?).collect());
    }
    Ok(table)
}

fn show<T: Noun>(context: &Context, references: &[String]) -> Result<(), Failure> {
    let hcn = context.hcn.as_ref();
    let query = hcn::print(&Query::v2(&[]));
    let find = |reference: &String| Ok(hcn.query(T::KIND, resolve(hcn, T::KIND, reference)?, &query)?);
    let documents = references.iter().map(find).collect::<Result<Vec<Value>, Failure>>()?;
    if !context.output.is_for_people() {
        return context.output.value(&one_or_many(documents));
    }
    let world = World::new(hcn);
    for (index, document) in documents.into_iter().enumerate() {
        let separator = if index == 0 { "" } else { "\n" };
        let description = read::<T>(document)?.describe(&world)?;
        context.output.text(&format!("{separator}{}", description.render()))?;
    }
    Ok(())
}

fn one_or_many(mut documents: Vec<Value>) -> Value {
    match documents.len() {
        1 => documents.remove(0),
        _ => Value::Array(documents),
    }
}

fn create<T: Noun, C: Args + Placement>(context: &Context, args: &CreateArgs<C>) -> Result<(), Failure> {
    let documents = input::read(&args.file)?;
    let network = args.more.network(context.hcn.as_ref())?;
    let mut progress = Progress::new("creating", documents.len());
    let mut made = Vec::new();
    for document in documents {
        match create_one::<T>(context, network, &document) {
            Ok(object) => made.push(object),
            Err(failure) => {
                report_made(context, made.iter().map(T::write).collect())?;
                return Err(failed_at::<T>(failure, &document, &made));
            }
        }
        progress.step();
        if let (true, Some(object)) = (context.output.is_for_people(), made.last()) {
            progress.aside(|| context.output.line(&format!("created {}", title(object))))?;
        }
    }
    drop(progress);
    report_made(context, made.iter().map(T::write).collect())
}

fn create_one<T: Noun>(context: &Context, network: Option<Guid>, document: &Document) -> Result<T, Failure> {
    let hcn = context.hcn.as_ref();
    let settings = complete(hcn, document.value.clone())?;
    let id = hcn.create(T::KIND, network, None, &settings.to_string())?;
    Ok(hcn.object(id)?)
}

/// People were told of each object when it was made; programs get all of them at the end.
fn report_made(context: &Context, made: Vec<Value>) -> Result<(), Failure> {
    match context.output.is_for_people() {
        true => Ok(()),
        false => context.output.value(&one_or_many(made)),
    }
}

fn failed_at<T: Noun>(failure: Failure, document: &Document, made: &[T]) -> Failure {
    let name = document.value.get("Name").and_then(Value::as_str).map(|name| format!(" ({name})")).unwrap_or_default();
    let failure = failure.context(format!("{}{name}", document.place));
    if made.is_empty() {
        return failure;
    }
    let ids: Vec<String> = made.iter().map(|object| object.id().to_string()).collect();
    failure.note(format!("made before it, and still there: {}", ids.join(" ")))
}

/// An object by name and id.
fn title<T: Noun>(object: &T) -> String {
    let name = if object.name().is_empty() { String::new() } else { format!("{} ", object.name()) };
    format!("{} {name}{}", T::WORDS.0, object.id())
}

/// Properties that only documents of schema 1 have.
const ONLY_IN_SCHEMA_1: [&str; 16] = [
    "Subnets",
    "NetworkAdapterName",
    "MacPools",
    "SourceMac",
    "ManagementIP",
    "DNSServerList",
    "DNSSuffix",
    "VirtualNetwork",
    "VirtualNetworkName",
    "IPAddress",
    "IPv6Address",
    "GatewayAddress",
    "References",
    "IsDefault",
    "ResourceList",
    "IsRemoteEndpoint",
];

/// A document as people write it becomes one the service understands: it says its schema, and refers to others by id.
pub(crate) fn complete(hcn: &dyn Hcn, mut document: Value) -> Result<Value, Failure> {
    let Some(map) = document.as_object_mut() else {
        return Ok(document);
    };
    let has = |name: &str| map.keys().any(|key| key.eq_ignore_ascii_case(name));
    if !has("SchemaVersion") && !ONLY_IN_SCHEMA_1.into_iter().any(has) {
        map.insert("SchemaVersion".into(), json!({"Major": 2, "Minor": 0}));
    }
    for (key, value) in map.iter_mut() {
        match key.as_str() {
            "HostComputeNetwork" => refer(hcn, Kind::Network, value)?,
            "HostComputeEndpoints" => {
                let mut endpoints = value.as_array_mut().into_iter().flatten();
                endpoints.try_for_each(|endpoint| refer(hcn, Kind::Endpoint, endpoint))?;
            }
            _ => {}
        }
    }
    Ok(document)
}

/// Puts an id in place of a name. What is no text is left for the service to complain about.
fn refer(hcn: &dyn Hcn, kind: Kind, value: &mut Value) -> Result<(), Failure> {
    if let Some(reference) = value.as_str().filter(|text| !text.is_empty()) {
        *value = json!(resolve(hcn, kind, reference)?.to_string());
    }
    Ok(())
}

fn modify<T: Noun>(context: &Context, reference: &str, file: &Path) -> Result<(), Failure> {
    let hcn = context.hcn.as_ref();
    let requests = input::read(file)?;
    let id = resolve(hcn, T::KIND, reference)?;
    for (index, request) in requests.iter().enumerate() {
        let settings = match T::KIND {
            // A load balancer is changed by its whole document; the others by requests, which have no schema.
            Kind::LoadBalancer if request.value.get("RequestType").is_none() => complete(hcn, request.value.clone())?,
            _ => request.value.clone(),
        };
        hcn.modify(T::KIND, id, &settings.to_string()).map_err(|error| {
            let failure = Failure::from(error).context(&request.place);
            if index == 0 { failure } else { failure.note(format!("{index} requests before it took effect")) }
        })?;
    }
    report_modified::<T>(context, id)
}

/// Says that an object was changed: a line for people, the document for programs.
pub(crate) fn report_modified<T: Noun>(context: &Context, id: Guid) -> Result<(), Failure> {
    let object: T = context.hcn.object(id)?;
    match context.output.is_for_people() {
        true => context.output.line(&format!("modified {}", title(&object))),
        false => context.output.value(&object.write()),
    }
}

/// Deletes as much as it can and tells every failure, because half a clean-up is worth more than none.
fn delete<T: Noun>(context: &Context, args: &DeleteArgs) -> Result<(), Failure> {
    let hcn = context.hcn.as_ref();
    let references = match args.all {
        true => confirmed::<T>(hcn, args.yes)?,
        false => args.references.clone(),
    };
    let mut progress = Progress::new("deleting", references.len());
    let mut worst = None;
    let mut deleted = Vec::new();
    for reference in &references {
        match delete_one::<T>(hcn, reference) {
            Ok(id) => {
                deleted.push(json!(id.to_string()));
                if context.output.is_for_people() {
                    let name = if *reference == id.to_string() { String::new() } else { format!(" ({reference})") };
                    progress.aside(|| context.output.line(&format!("deleted {} {id}{name}", T::WORDS.0)))?;
                }
            }
            Err(failure) if failure.exit == Exit::NotFound && (args.ignore_not_found || args.all) => {}
            Err(failure) => {
                let exit = failure.exit;
                progress.aside(|| note(&failure.context(format!("cannot delete {}", T::WORDS.0)).to_string()));
                worst.get_or_insert(exit);
                if exit == Exit::Unavailable {
                    break;
                }
            }
        }
        progress.step();
    }
    drop(progress);
    if !context.output.is_for_people() {
        context.output.value(&Value::Array(deleted))?;
    }
    worst.map_or(Ok(()), |exit| Err(Failure::told(exit)))
}

fn delete_one<T: Noun>(hcn: &dyn Hcn, reference: &str) -> Result<Guid, Failure> {
    let id = resolve(hcn, T::KIND, reference)?;
    hcn.delete(T::KIND, id).map_err(|error| Failure::from(error).context(reference))?;
    Ok(id)
}

/// The ids of all objects, once somebody has said that they may go.
fn confirmed<T: Noun>(hcn: &dyn Hcn, yes: bool) -> Result<Vec<String>, Failure> {
    let ids = hcn.enumerate(T::KIND, &hcn::print(&Query::v2(&[])))?;
    if ids.is_empty() {
        note(&format!("no {}", T::WORDS.1));
    }
    if !yes && !ids.is_empty() {
        ask(&format!("delete all {} {}? [y/N] ", ids.len(), T::WORDS.1))?;
    }
    Ok(ids.iter().map(Guid::to_string).collect())
}

fn ask(question: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::new(Exit::Usage, "nobody is there to confirm it").remedy("add --yes"));
    }
    let _ = io::Write::write_all(&mut io::stderr().lock(), question.as_bytes());
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    match read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        true => Ok(()),
        false => Err(Failure::new(Exit::Failed, "nothing was deleted")),
    }
}
