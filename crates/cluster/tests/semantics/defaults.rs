//! What the server fills in.

use serde_json::{Value, json};

use crate::harness::{Scope, server};

/// What becomes of an object, without what every object gets.
#[track_caller]
fn completed(resource: &str, body: Value) -> Value {
    let scope = Scope::new();
    let path = if resource == "nodes" { "/api/v1/nodes?dryRun=All".to_owned() } else { scope.path(resource) + "?dryRun=All" };
    let mut made = server().post(path, &body).created();
    let object = made.as_object_mut().expect("an object is an object");
    for field in ["kind", "apiVersion", "metadata"] {
        object.remove(field);
    }
    made
}

/// A container as it is when nothing was said about it.
fn container(name: &str, image: &str, pull: &str) -> Value {
    json!({
        "name": name, "image": image, "resources": {}, "imagePullPolicy": pull,
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    })
}

#[test]
fn a_pod() {
    let toleration = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let expected = json!({
        "spec": {
            "containers": [container("a", "x:1", "IfNotPresent"), container("b", "x", "Always"), container("c", "x:latest", "Always")],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [toleration("node.kubernetes.io/not-ready"), toleration("node.kubernetes.io/unreachable")],
            "priority": 0, "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    });
    let containers = json!([{"name": "a", "image": "x:1"}, {"name": "b", "image": "x"}, {"name": "c", "image": "x:latest"}]);
    assert_eq!(completed("pods", json!({"metadata": {"name": "one"}, "spec": {"containers": containers}})), expected);
}

#[test]
fn the_parts_of_a_pod() {
    let body = json!({"metadata": {"name": "one"}, "spec": {
        "containers": [{
            "name": "main", "image": "x:1", "ports": [{"containerPort": 80}],
            "readinessProbe": {"httpGet": {"port": 80}},
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "resources": {"limits": {"cpu": "1"}},
        }],
        "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "s"}}],
    }});
    let made = completed("pods", body);
    let main = &made["spec"]["containers"][0];
    assert_eq!(main["ports"], json!([{"containerPort": 80, "protocol": "TCP"}]));
    let probe = json!({
        "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
        "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
    });
    assert_eq!(main["readinessProbe"], probe);
    assert_eq!(main["env"][0]["valueFrom"]["fieldRef"], json!({"apiVersion": "v1", "fieldPath": "metadata.name"}));
    assert_eq!(main["resources"], json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}));
    assert_eq!(made["status"]["qosClass"], "Burstable");
    let volumes = json!([{"name": "v", "emptyDir": {}}, {"name": "s", "secret": {"secretName": "s", "defaultMode": 420}}]);
    assert_eq!(made["spec"]["volumes"], volumes);
}

#[test]
fn the_class_of_a_pod() {
    let class = |resources: Value| {
        let containers = json!([{"name": "main", "image": "x", "resources": resources}]);
        completed("pods", json!({"metadata": {"name": "one"}, "spec": {"containers": containers}}))["status"]["qosClass"].clone()
    };
    assert_eq!(class(json!({"limits": {"cpu": "1", "memory": "1Gi"}})), "Guaranteed");
    assert_eq!(class(json!({"requests": {"cpu": "1"}})), "Burstable");
    assert_eq!(class(json!({})), "BestEffort");
}

#[test]
fn quantities_are_written_the_shortest_way() {
    let resources = json!({"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": {"cpu": "1.5", "memory": 2_000_000_000u64}});
    let containers = json!([{"name": "main", "image": "x", "resources": resources}]);
    let made = completed("pods", json!({"metadata": {"name": "one"}, "spec": {"containers": containers}}));
    let expected = json!({"limits": {"cpu": "1500m", "memory": "2G"}, "requests": {"cpu": "1", "memory": "1Gi"}});
    assert_eq!(made["spec"]["containers"][0]["resources"], expected);
}

#[test]
fn host_networks_make_host_ports() {
    let body = json!({"metadata": {"name": "one"}, "spec": {
        "hostNetwork": true, "containers": [{"name": "main", "image": "x", "ports": [{"containerPort": 80}]}],
    }});
    let made = completed("pods", body);
    assert_eq!(made["spec"]["containers"][0]["ports"], json!([{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]));
}

#[test]
fn a_service() {
    let mut made = completed("services", json!({"metadata": {"name": "one"}, "spec": {"ports": [{"port": 80}]}}));
    let spec = made["spec"].as_object_mut().expect("a spec is an object");
    assert!(spec.remove("clusterIP").is_some() && spec.remove("clusterIPs").is_some());
    let expected = json!({
        "spec": {
            "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}], "type": "ClusterIP", "sessionAffinity": "None",
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    });
    assert_eq!(made, expected);
}

#[test]
fn a_service_for_outside() {
    let ports = json!([{"port": 80, "name": "x"}, {"port": 53, "protocol": "UDP", "name": "dns", "targetPort": "dns"}]);
    let body = json!({"metadata": {"name": "one"}, "spec": {"type": "LoadBalancer", "sessionAffinity": "ClientIP", "ports": ports}});
    let spec = &completed("services", body)["spec"];
    assert_eq!(spec["sessionAffinityConfig"], json!({"clientIP": {"timeoutSeconds": 10800}}));
    assert_eq!((&spec["externalTrafficPolicy"], &spec["allocateLoadBalancerNodePorts"]), (&json!("Cluster"), &json!(true)));
    assert!(spec["ports"][0]["nodePort"].is_u64() && spec["ports"][1]["nodePort"].is_u64());
    assert_eq!(spec["ports"][1]["targetPort"], "dns");
}

fn template() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}})
}

fn completed_template() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {
        "containers": [container("main", "x", "Always")],
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "securityContext": {},
        "schedulerName": "default-scheduler",
    }})
}

#[test]
fn a_deployment() {
    let body = json!({"metadata": {"name": "one"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template()}});
    let expected = json!({
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": completed_template(),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
        },
        "status": {},
    });
    assert_eq!(completed("deployments", body), expected);
}

#[test]
fn a_replica_set() {
    let body = json!({"metadata": {"name": "one"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template()}});
    let expected = json!({
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": completed_template()},
        "status": {"replicas": 0},
    });
    assert_eq!(completed("replicasets", body), expected);
}

#[test]
fn a_secret() {
    let made = completed("secrets", json!({"metadata": {"name": "one"}, "data": {"a": "eA=="}, "stringData": {"a": "b", "c": "d"}}));
    assert_eq!(made, json!({"data": {"a": "Yg==", "c": "ZA=="}, "type": "Opaque"}));
}

#[test]
fn endpoints() {
    let subset = json!({"addresses": [{"ip": "10.0.0.2"}, {"ip": "10.0.0.1"}], "ports": [{"port": 80}]});
    let expected =
        json!({"subsets": [{"addresses": [{"ip": "10.0.0.2"}, {"ip": "10.0.0.1"}], "ports": [{"port": 80, "protocol": "TCP"}]}]});
    assert_eq!(completed("endpoints", json!({"metadata": {"name": "one"}, "subsets": [subset]})), expected);
}

#[test]
fn an_endpoint_slice() {
    let body =
        json!({"metadata": {"name": "one"}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]});
    let expected = json!({
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {}}],
        "ports": [{"name": "", "protocol": "TCP", "port": 80}],
    });
    assert_eq!(completed("endpointslices", body), expected);
    let empty = completed("endpointslices", json!({"metadata": {"name": "one"}, "addressType": "IPv6"}));
    assert_eq!(empty, json!({"addressType": "IPv6", "endpoints": null, "ports": null}));
}

#[test]
fn a_network_policy() {
    let spec = json!({"podSelector": {}, "egress": [{}], "ingress": [{"ports": [{"port": 80}]}]});
    let expected = json!({"spec": {
        "podSelector": {}, "egress": [{}], "ingress": [{"ports": [{"protocol": "TCP", "port": 80}]}], "policyTypes": ["Ingress", "Egress"],
    }});
    assert_eq!(completed("networkpolicies", json!({"metadata": {"name": "one"}, "spec": spec})), expected);
    let empty = completed("networkpolicies", json!({"metadata": {"name": "one"}, "spec": {"podSelector": {}}}));
    assert_eq!(empty, json!({"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}));
}

#[test]
fn a_node() {
    let made = completed("nodes", json!({"metadata": {"name": "one"}, "spec": {"podCIDR": "10.0.0.0/24"}}));
    let taints = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
    assert_eq!(made["spec"], json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "taints": taints}));
    assert_eq!(made["status"]["daemonEndpoints"], json!({"kubeletEndpoint": {"Port": 0}}));
    assert_eq!(made["status"]["nodeInfo"]["kubeletVersion"], "");
}

#[test]
fn an_event() {
    let scope = Scope::new();
    let made = scope.post("events", &json!({"metadata": {"name": "one"}, "involvedObject": {"namespace": scope.name}})).created();
    for (field, expected) in [("source", json!({})), ("firstTimestamp", json!(null)), ("reportingComponent", json!(""))] {
        assert_eq!(made.get(field), Some(&expected), "{field}");
    }
}

#[test]
fn leases_accounts_and_config_maps_get_nothing() {
    assert_eq!(completed("leases", json!({"metadata": {"name": "one"}})), json!({"spec": {}}));
    assert_eq!(completed("serviceaccounts", json!({"metadata": {"name": "one"}})), json!({}));
    assert_eq!(completed("configmaps", json!({"metadata": {"name": "one"}})), json!({}));
}

#[test]
fn times_with_fractions() {
    let made = completed("leases", json!({"metadata": {"name": "one"}, "spec": {"renewTime": "2026-01-02T05:04:05.123456+02:00"}}));
    assert_eq!(made["spec"], json!({"renewTime": "2026-01-02T03:04:05.123456Z"}));
    let scope = Scope::new();
    let whole = json!({"metadata": {"name": "one"}, "spec": {"renewTime": "2026-01-02T03:04:05Z"}});
    let message = "Lease in version \"v1\" cannot be handled as a Lease: parsing time \"2026-01-02T03:04:05Z\" as \"2006-01-02T15:04:05.000000Z07:00\": \
        cannot parse \"Z\" as \".000000\"";
    scope.post("leases", &whole).refused(400, "BadRequest", message);
}
