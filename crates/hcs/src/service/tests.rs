//! The service on a runtime that makes nothing.

use std::io;

use super::*;
use crate::network::adapter;
use crate::network::tests::ENDPOINT;

const NAMESPACE: &str = "9a0bdc6c-0a5c-4a5e-8a43-1b6a1f6f6d01";

/// A runtime whose containers are only remembered.
#[derive(Clone, Default)]
struct Fake {
    world: Arc<World>,
}

#[derive(Default)]
struct World {
    calls: Mutex<Vec<String>>,
    listeners: Mutex<HashMap<String, Listener>>,
}

impl World {
    fn note(&self, call: String) {
        self.calls.lock().unwrap().push(call);
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }

    fn tell(&self, id: &str, happening: Happening) {
        let listener = self.listeners.lock().unwrap()[id].clone();
        listener(happening);
    }
}

struct Pretended {
    id: String,
    world: Arc<World>,
}

impl Runtime for Fake {
    fn create(&self, plan: &Plan<'_>, listener: Listener) -> io::Result<Arc<dyn Container>> {
        if plan.id == "bad" {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.world.note(format!("create {} {}", plan.id, plan.network.host_name));
        self.world.listeners.lock().unwrap().insert(plan.id.to_owned(), listener);
        Ok(Arc::new(Pretended { id: plan.id.to_owned(), world: Arc::clone(&self.world) }))
    }

    fn update(&self, plan: &Plan<'_>) -> io::Result<()> {
        self.world.note(format!("update {}", plan.id));
        Ok(())
    }

    fn clean(&self, id: &str) -> io::Result<()> {
        self.world.note(format!("clean {id}"));
        Ok(())
    }
}

impl Container for Pretended {
    fn spawn(&self, parameters: &ProcessParameters, _: Streams) -> io::Result<u32> {
        match parameters.arguments()[0].as_str() {
            "missing" => Err(io::ErrorKind::NotFound.into()),
            "quick" => {
                self.world.tell(&self.id, Happening::ProcessExited { pid: 3, code: 4 });
                Ok(3)
            }
            _ => Ok(2),
        }
    }

    fn signal(&self, pid: u32, signal: i32) -> io::Result<()> {
        self.world.tell(&self.id, Happening::ProcessExited { pid, code: 128 + signal });
        Ok(())
    }

    fn stop(&self, grace: Duration) -> io::Result<()> {
        self.world.note(format!("stop {} {grace:?}", self.id));
        self.world.tell(&self.id, Happening::Ended);
        Ok(())
    }

    fn kill(&self) -> io::Result<()> {
        self.world.note(format!("kill {}", self.id));
        self.world.tell(&self.id, Happening::Ended);
        Ok(())
    }

    fn init_pid(&self) -> Option<u32> {
        Some(100)
    }
}

fn service() -> (Service, Arc<World>, Arc<Mutex<Vec<Notification>>>) {
    let (fake, heard) = (Fake::default(), Arc::new(Mutex::new(Vec::new())));
    let world = Arc::clone(&fake.world);
    let adapters: Adapters = Box::new(|_| Ok(vec![adapter(&hcn::parse(ENDPOINT)?)]));
    let observer: Observer = Arc::new({
        let heard = Arc::clone(&heard);
        move |notification| heard.lock().unwrap().push(notification)
    });
    (Service::new(Box::new(fake), adapters, SearchList::First, observer), world, heard)
}

fn document() -> String {
    format!(r#"{{"Owner":"test","Container":{{"GuestOs":{{"HostName":"web-0"}},"Networking":{{"Namespace":"{NAMESPACE}"}}}}}}"#)
}

fn command(program: &str) -> ProcessParameters {
    ProcessParameters::new([program])
}

fn name<T: std::fmt::Debug>(result: Result<T>) -> &'static str {
    result.unwrap_err().name()
}

#[test]
fn a_life_from_beginning_to_end() {
    let (service, world, heard) = service();
    service.create("web", &document()).unwrap();
    service.start("web").unwrap();
    let pid = service.create_process("web", &command("server"), Streams::Log).unwrap();
    assert!(!service.process("web", pid).unwrap().exited);
    assert_eq!(service.wait_process("web", pid, Duration::from_millis(5)).unwrap(), None);
    service.shutdown("web", Duration::from_secs(3)).unwrap();
    let status = service.process("web", pid).unwrap();
    assert_eq!((status.exited, status.exit_code), (true, 137));
    let properties = service.properties("web", &PropertyQuery::default()).unwrap();
    assert_eq!((properties.state.as_str(), properties.exit_type.as_str()), ("Stopped", "GracefulExit"));
    service.delete("web").unwrap();
    assert_eq!(world.calls(), ["create web web-0", "update web", "stop web 3s", "clean web"]);
    assert_eq!(*heard.lock().unwrap(), [Notification { id: "web".into(), happening: Happening::Ended }]);
    assert_eq!(name(service.start("web")), "HCS_E_SYSTEM_NOT_FOUND");
}

#[test]
fn what_is_illegal_in_a_state_is_refused_and_changes_nothing() {
    let (service, world, _) = service();
    service.create("web", &document()).unwrap();
    assert_eq!(name(service.create("web", &document())), "HCS_E_SYSTEM_ALREADY_EXISTS");
    assert_eq!(name(service.shutdown("web", Duration::ZERO)), "HCS_E_INVALID_STATE");
    assert_eq!(name(service.create_process("web", &command("x"), Streams::Null)), "HCS_E_INVALID_STATE");
    service.start("web").unwrap();
    assert_eq!(name(service.start("web")), "HCS_E_INVALID_STATE");
    assert_eq!(name(service.delete("web")), "HCS_E_INVALID_STATE");
    service.terminate("web").unwrap();
    assert_eq!(name(service.terminate("web")), "HCS_E_SYSTEM_ALREADY_STOPPED");
    assert_eq!(name(service.shutdown("web", Duration::ZERO)), "HCS_E_SYSTEM_ALREADY_STOPPED");
    assert_eq!(name(service.start("web")), "HCS_E_SYSTEM_ALREADY_STOPPED");
    assert_eq!(name(service.create_process("web", &command("x"), Streams::Null)), "HCS_E_SYSTEM_ALREADY_STOPPED");
    assert_eq!(world.calls(), ["create web web-0", "update web", "kill web"]);
}

#[test]
fn nobody_is_not_found() {
    let (service, _, _) = service();
    let results = [
        name(service.start("x")),
        name(service.shutdown("x", Duration::ZERO)),
        name(service.terminate("x")),
        name(service.delete("x")),
        name(service.properties("x", &PropertyQuery::default())),
        name(service.registry("x")),
        name(service.create_process("x", &command("x"), Streams::Null)),
        name(service.process("x", 1)),
        name(service.kill_process("x", 1)),
    ];
    assert!(results.iter().all(|result| *result == "HCS_E_SYSTEM_NOT_FOUND"), "{results:?}");
}

#[test]
fn a_container_that_ends_by_itself_is_noticed() {
    let (service, world, _) = service();
    service.create("web", &document()).unwrap();
    service.start("web").unwrap();
    world.tell("web", Happening::Ended);
    let properties = service.properties("web", &PropertyQuery::default()).unwrap();
    assert_eq!((properties.state.as_str(), properties.exit_type.as_str()), ("Stopped", "UnexpectedExit"));
}

#[test]
fn processes_end_early_late_and_by_force() {
    let (service, _, _) = service();
    service.create("web", &document()).unwrap();
    service.start("web").unwrap();
    let quick = service.create_process("web", &command("quick"), Streams::Null).unwrap();
    assert_eq!(service.wait_process("web", quick, Duration::ZERO).unwrap(), Some(4));
    let slow = service.create_process("web", &command("slow"), Streams::Null).unwrap();
    let query = PropertyQuery { property_types: vec![PropertyType::ProcessList], ..PropertyQuery::default() };
    let list = service.properties("web", &query).unwrap().process_list;
    assert_eq!(list.iter().map(|process| process.image_name.as_str()).collect::<Vec<_>>(), ["slow"]);
    assert_eq!(name(service.close_process("web", slow)), "HCS_E_INVALID_STATE");
    service.kill_process("web", slow).unwrap();
    assert_eq!(service.wait_process("web", slow, Duration::ZERO).unwrap(), Some(137));
    assert_eq!(name(service.kill_process("web", slow)), "HCS_E_PROCESS_ALREADY_STOPPED");
    service.close_process("web", slow).unwrap();
    assert_eq!(name(service.process("web", slow)), "ERROR_NOT_FOUND");
    assert_eq!(name(service.create_process("web", &command("missing"), Streams::Null)), "ERROR_FILE_NOT_FOUND");
    assert_eq!(name(service.create_process("web", &ProcessParameters::default(), Streams::Null)), "HCS_E_INVALID_JSON");
}

#[test]
fn documents_that_are_no_containers_are_refused() {
    let (service, world, _) = service();
    assert_eq!(name(service.create("x", "{")), "HCS_E_INVALID_JSON");
    assert_eq!(name(service.create("x", "{}")), "HCS_E_INVALID_JSON");
    assert_eq!(name(service.create("x", r#"{"VirtualMachine":{}}"#)), "ERROR_NOT_SUPPORTED");
    assert_eq!(name(service.create("bad", &document())), "E_ACCESSDENIED");
    assert_eq!(world.calls(), ["clean bad"]);
    assert_eq!(service.enumerate(&SystemQuery::default()).len(), 0);
}

#[test]
fn systems_are_found_by_query() {
    let (service, _, _) = service();
    for id in ["b", "a"] {
        service.create(id, &document()).unwrap();
    }
    let ids = |query: &str| -> Vec<String> {
        service.enumerate(&hcn::parse(query).unwrap()).into_iter().map(|properties| properties.id).collect()
    };
    assert_eq!(ids("{}"), ["a", "b"]);
    assert_eq!(ids(r#"{"Ids":["B"],"Owners":["test"]}"#), ["b"]);
    assert_eq!(ids(r#"{"Types":["VirtualMachine"]}"#), [""; 0]);
}

#[test]
fn the_registry_has_the_network_and_the_changes_of_the_document() {
    let (service, _, _) = service();
    let document = format!(
        r#"{{"Container":{{"GuestOs":{{"HostName":"web-0"}},"Networking":{{"Namespace":"{NAMESPACE}","DnsSearchList":"own.local"}},
            "RegistryChanges":{{"AddValues":[{{"Key":{{"Hive":"Software","Name":"Shop"}},"Name":"Open","Type":"DWord","DWordValue":1}}]}}}}}}"#
    );
    service.create("web", &document).unwrap();
    let hive = service.registry("web").unwrap();
    assert_eq!(hive.value(tcpip::TCPIP, "SearchList"), Some(&"own.local".into()));
    assert_eq!(hive.value(r"HKLM\SOFTWARE\Shop", "Open"), Some(&1.into()));
}

#[test]
fn a_system_may_end_with_its_last_handle() {
    let (service, world, _) = service();
    service.create("web", r#"{"ShouldTerminateOnLastHandleClosed":true,"Container":{}}"#).unwrap();
    service.start("web").unwrap();
    service.delete("web").unwrap();
    assert_eq!(world.calls(), ["create web ", "update web", "kill web", "clean web"]);
}

#[test]
fn a_network_that_changes_is_told() {
    let (fake, servers) = (Fake::default(), Arc::new(Mutex::new(vec!["10.96.0.10"])));
    let adapters: Adapters = Box::new({
        let servers = Arc::clone(&servers);
        move |_| {
            let dns_servers = servers.lock().unwrap().iter().map(|server| server.parse().unwrap()).collect();
            Ok(vec![Adapter { dns_servers, ..adapter(&hcn::parse(ENDPOINT)?) }])
        }
    });
    let service = Service::new(Box::new(fake), adapters, SearchList::First, Arc::new(|_| ()));
    service.create("web", &document()).unwrap();
    servers.lock().unwrap().push("10.96.0.11");
    service.refresh("web").unwrap();
    let path = format!(r"{}\Interfaces\{{5f0b1190-63be-4e0c-b974-bd0f55675a42}}", tcpip::TCPIP);
    assert_eq!(service.registry("web").unwrap().value(&path, "NameServer"), Some(&"10.96.0.10,10.96.0.11".into()));
}
